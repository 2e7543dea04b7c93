from acqh.export.files import ExportReport as ExportReport
from acqh.export.files import export_faiss as export_faiss
from acqh.export.files import export_parquet as export_parquet
from acqh.export.static.site import SiteReport as SiteReport
from acqh.export.static.site import site as site
