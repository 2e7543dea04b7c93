from acqh.export.faiss import export_faiss as export_faiss
from acqh.export.milvus import export_milvus as export_milvus
from acqh.export.parquet import export_parquet as export_parquet
from acqh.export.source import ExportReport as ExportReport
from acqh.export.static.site import SiteReport as SiteReport
from acqh.export.static.site import site as site
