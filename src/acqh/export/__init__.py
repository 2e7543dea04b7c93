"""Handing items over to other systems: Parquet files, Faiss, Milvus."""

from acqh.export._faiss import export_faiss
from acqh.export._milvus import export_milvus
from acqh.export._parquet import export_parquet
from acqh.export._source import ExportReport

__all__ = ["ExportReport", "export_faiss", "export_milvus", "export_parquet"]
