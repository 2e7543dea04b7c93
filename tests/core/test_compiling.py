"""When loops are compiled, and the message about it."""

import importlib
import subprocess
import sys

COMPILE_TWICE = """
import numpy as np
from acqh._core import runtime

__name__ = "acqh.example"

@runtime.kernel()
def add_up(values):
    total = 0.0
    for i in range(len(values)):
        total += values[i]
    return total

add_up(np.ones(3))
add_up(np.ones(3, dtype=int))
"""


def test_compiling_is_logged_once():
    done = subprocess.run(
        [sys.executable, "-c", COMPILE_TWICE], capture_output=True, text=True, check=True
    )
    assert done.stderr.count("\n") == done.stderr.count("compiling loops") == 1


def test_any_number_of_small_calls_runs_in_numpy():
    program = (
        "import sys\n"
        "from acqh._core.runtime import loops\n"
        "names = [loops('acqh.quantize', 10**9).__name__ for _ in range(3)]\n"
        "loops('acqh.quantize', 10**10)\n"
        "print(*names, loops('acqh.quantize', 1).__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == 3 * ["acqh.quantize.plain"] + ["acqh.quantize.compiled"]


def test_numpy_loops_have_the_names_of_compiled_ones():
    plain, compiled = (
        importlib.import_module(f"acqh.quantize.{kind}") for kind in ("plain", "compiled")
    )
    names = {
        name
        for name, function in vars(plain).items()
        if getattr(function, "__module__", "") == plain.__name__ and not name.startswith("_")
    }
    assert len(names) > 3
    assert names <= vars(compiled).keys()


def test_cached_code_with_a_moved_class_is_recompiled(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for home in ("first_home", "second_home"):
        (tmp_path / f"{home}.py").write_text(
            "from typing import NamedTuple\nclass Pair(NamedTuple):\n    a: int\n    b: int\n"
        )
        (tmp_path / "moving_loops.py").write_text(
            f"from acqh._core.runtime import kernel\nfrom {home} import Pair\n"
            "@kernel()\ndef add(pair):\n    return pair.a + pair.b\n"
        )
        importlib.invalidate_caches()
        loops = importlib.import_module("moving_loops")
        assert loops.add(loops.Pair(1, 2)) == 3
        for name in ("moving_loops", home):
            del sys.modules[name]
        (tmp_path / f"{home}.py").unlink()
