import subprocess
import sys
from importlib import import_module
from pkgutil import walk_packages

import pytest

import acqh
from acqh.errors import InvalidInputError
from acqh.methods import baselines, registry


def test_every_name_gives_a_class_with_complete_facts():
    for name in acqh.methods.list():
        info = acqh.methods.get(name).info
        assert info.name == name
        assert info.title
        assert str(info.year) in info.reference
        assert info.modes


def test_every_registered_class_has_its_place_in_the_table():
    for module in walk_packages(baselines.__path__, "acqh.methods.baselines."):
        import_module(module.name)
    entered = {name: f"{cls.__module__}:{cls.__name__}" for name, cls in registry._METHODS.items()}
    for name, place in registry.CLASSES.items():
        if place.startswith("baselines."):
            assert entered[name] == f"acqh.methods.{place}"
    assert {name for name, of in entered.items() if ".baselines." in of} <= registry.CLASSES.keys()


def test_importing_acqh_imports_no_baseline(tmp_path):
    data = acqh.make_multiview(40, random_state=0)
    acqh.ACQH(4, n_codebooks=1, codebook_size=4).fit(data).save(tmp_path / "model")
    script = (
        "import sys, acqh; acqh.load(sys.argv[1]); acqh.methods.get('acqh'); acqh.methods.list()\n"
        "print([name for name in sys.modules if name.startswith('acqh.methods.baselines')])"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "model")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_error_for_an_unknown_name_lists_the_valid_ones():
    with pytest.raises(InvalidInputError, match=r"'nope'; there are: .*label-ridge"):
        acqh.methods.get("nope")


def test_two_methods_cannot_share_a_name():
    assert "label-ridge" in acqh.methods.list()
    with pytest.raises(InvalidInputError, match="two methods are called"):

        @acqh.methods.register(
            name="label-ridge",
            title="t",
            reference="r",
            year=1,
            supervised=True,
            code="real",
            modes=(),
        )
        class Impostor:
            pass


def test_a_method_without_all_its_parts_cannot_be_made():
    class Half(acqh.methods.BaseMethod):
        def project(self, X, *, view):
            return X if view else None

    with pytest.raises(TypeError, match=r"abstract.*decode"):
        Half()
    with pytest.raises(TypeError, match="abstract"):
        acqh.methods.BaseMethod()


def test_every_registered_class_can_be_imported_by_name():
    for name in acqh.methods.list():
        cls = acqh.methods.get(name)
        assert cls.__name__ in acqh.methods.__all__
        assert getattr(acqh.methods, cls.__name__) is cls
    with pytest.raises(AttributeError, match="no attribute 'Nope'"):
        _ = acqh.methods.Nope


def test_methods_are_listed_by_status():
    by_status = {name: acqh.methods.get(name).info.status for name in acqh.methods.list()}
    for status in ("authors' code", "paper", "reconstructed"):
        assert acqh.methods.list(status) == [n for n in by_status if by_status[n] == status]
    with pytest.raises(InvalidInputError, match="status"):
        acqh.methods.list("own")
