import pytest

import acqh
from acqh.errors import InvalidInputError


def test_every_name_gives_a_class_with_complete_facts():
    for name in acqh.methods.list():
        info = acqh.methods.get(name).info
        assert info.name == name
        assert info.title
        assert str(info.year) in info.reference
        assert info.modes


def test_an_unknown_name_lists_the_known_ones():
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


def test_every_class_of_the_registry_can_be_imported_by_its_own_name():
    for name in acqh.methods.list():
        cls = acqh.methods.get(name)
        assert cls.__name__ in acqh.methods.__all__
        assert getattr(acqh.methods, cls.__name__) is cls
    with pytest.raises(AttributeError, match="no attribute 'Nope'"):
        _ = acqh.methods.Nope
