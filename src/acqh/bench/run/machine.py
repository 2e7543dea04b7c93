"""What a run was made on, and how much memory it took."""

import platform
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from acqh import __version__
from acqh._core.runtime import count_cores

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "torch")
_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
# Written to the file above, it makes the peak of resident memory start again.
_RESET_PEAK = "5"


def versions() -> dict[str, str]:
    """Return the versions of what a result depends on.

    Examples
    --------
    >>> sorted(versions())[:2]
    ['acqh', 'numba']
    """
    found = {"acqh": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def machine() -> dict[str, str | int]:
    """Return the kind of machine: system, processor, number of cores."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "n_cores": count_cores(),
    }


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def reset_peak_memory() -> None:
    """Make `peak_memory` count from now on, where the system allows it."""
    with suppress(OSError):
        _CLEAR.write_text(_RESET_PEAK)


def peak_memory() -> int:
    """Return the most bytes that this process has had in memory since the last reset.

    Where there is no reset (outside Linux), since its start; 0 where the system does not say.
    """
    with suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
