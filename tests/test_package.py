import importlib
import subprocess
import sys

import acqh


def test_every_public_name_can_be_loaded():
    for name in acqh.__all__:
        assert getattr(acqh, name) is not None


def test_rooms_export_sorted_names_that_exist():
    for room in acqh._ROOMS:
        module = importlib.import_module(f"acqh.{room}")
        names = getattr(module, "__all__", [])
        assert list(names) == sorted(names)
        for name in names:
            assert hasattr(module, name), f"{room}.{name}"


def test_importing_acqh_loads_no_heavy_package():
    code = (
        "import sys, acqh; heavy = {'numba', 'sklearn', 'torch', 'matplotlib', 'pyarrow'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
