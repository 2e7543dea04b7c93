from acqh.export._faiss import export_faiss as export_faiss
from acqh.export._milvus import export_milvus as export_milvus
from acqh.export._parquet import export_parquet as export_parquet
from acqh.export._source import ExportReport as ExportReport
