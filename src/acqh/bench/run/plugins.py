"""Methods from a file of one's own."""

import hashlib
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from acqh.errors import InvalidInputError
from acqh.methods import BaseMethod
from acqh.methods.registry import MethodInfo


def load_method_file(argument: str) -> type[BaseMethod]:
    """Load a method from ``FILE.py:CLASS``; the file is run.

    `argument`: the class derives from BaseMethod and is entered by `acqh.methods.register`. Raises
    InvalidInputError: there is no such file or class, the file fails, or the class is no registered
    method.

    Examples
    --------
    >>> load_method_file("mine.py")
    Traceback (most recent call last):
        ...
    acqh.errors.InvalidInputError: a method is given as FILE.py:CLASS, not 'mine.py'
    """
    file, _, name = argument.rpartition(":")
    if not file.endswith(".py") or not name.isidentifier():
        raise InvalidInputError(f"a method is given as FILE.py:CLASS, not {argument!r}")
    path = Path(file).expanduser().resolve()
    if not path.is_file():
        raise InvalidInputError(f"there is no file {path}")
    cls = getattr(_import_file(path), name, None)
    if not (isinstance(cls, type) and issubclass(cls, BaseMethod)):
        raise InvalidInputError(f"{path} has no class {name} that derives from BaseMethod")
    if not isinstance(cls.__dict__.get("info"), MethodInfo):
        raise InvalidInputError(
            f"class {name} of {path} is not registered; write @acqh.methods.register(...) above it"
        )
    return cls


def _import_file(path: Path) -> object:
    # One name a file, so that two files of the same name do not meet.
    name = f"acqh_plugin_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidInputError(f"{path} cannot be imported")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # the file is somebody else's code
        del sys.modules[name]
        raise InvalidInputError(f"{path} cannot be imported: {error!r}") from error
    return module
