from acqh import bench as bench
from acqh import collection as collection
from acqh import data as data
from acqh import deep as deep
from acqh import encoders as encoders
from acqh import errors as errors
from acqh import export as export
from acqh import features as features
from acqh import index as index
from acqh import integrations as integrations
from acqh import io as io
from acqh import methods as methods
from acqh import metrics as metrics
from acqh import quantize as quantize
from acqh import scale as scale
from acqh import serve as serve
from acqh import stats as stats
from acqh._load import load as load
from acqh._load import verify as verify
from acqh.collection import Collection as Collection
from acqh.data import MultiViewData as MultiViewData
from acqh.data import list_datasets as list_datasets
from acqh.data import load_dataset as load_dataset
from acqh.data import make_like as make_like
from acqh.data import make_multiview as make_multiview
from acqh.index import CodeIndex as CodeIndex
from acqh.index import HammingIndex as HammingIndex
from acqh.index import SearchResult as SearchResult
from acqh.methods.acqh import ACQH as ACQH
from acqh.methods.acqh import Target as Target
from acqh.scale import compress as compress

__version__: str
_HOMES: dict[str, str]
_ROOMS: frozenset[str]
