import numpy as np
import pytest

import acqh
from acqh.bench.protocol import make_split
from acqh.bench.running.cells import (
    CODE_LENGTHS,
    RunGrid,
    build,
    fair_plan,
)
from acqh.bench.running.evaluate import BenchData, hash_contents, open_data, prepare
from acqh.bench.running.store import Estimator
from acqh.bench.running.variants import RandomCodes, list_variants, make_maps, make_variant
from acqh.bench.running.worker import peak_memory, reset_peak_memory
from acqh.data import save_npz
from acqh.errors import DatasetNotFoundError, InvalidInputError
from acqh.features import KernelMap


@pytest.fixture(scope="module")
def source():
    data = acqh.make_multiview(120, n_labels=3, random_state=0)
    return BenchData(data, hash_contents(data), {})


def grid_of(variants, seeds=(0, 1)):
    return RunGrid(tuple(variants), CODE_LENGTHS, ("labelled", "unlabelled"), seeds, n_threads=1)


def test_every_method_gets_the_bytes_asked_for(source):
    train = source.data
    for cell in fair_plan([source], grid_of(list_variants(), seeds=(0,))):
        if cell.protocol == "labelled" and cell.bytes_asked == 2:
            method = build(cell)
            assert method.info.name == cell.method
            if cell.method in ("acqh", "ccq", "stacked", "random", "dch"):
                assert method.fit(train.views, train.labels).bytes_per_item == 2


def test_an_unlabelled_database_is_coded_in_every_way_that_needs_no_labels(source):
    cells = fair_plan([source], grid_of([make_variant("acqh"), make_variant("label-ridge")]))
    modes = {
        (cell.label, cell.protocol): {
            other.database
            for other in cells
            if (other.label, other.protocol) == (cell.label, cell.protocol)
        }
        for cell in cells
    }
    for label in ("acqh", "label-ridge"):
        assert modes[label, "labelled"] == {"learnt"}
        assert modes[label, "unlabelled"] == {"hashed", "unified"}
    control = [cell for cell in cells if cell.label == "label-ridge"]
    assert len(control) == 2 * 3
    assert all(cell.bytes_asked is None for cell in control)


def test_a_method_whose_items_take_two_bytes_at_least_is_not_asked_for_one(source):
    cells = fair_plan([source], grid_of([make_variant("ccq")]))
    assert {cell.bytes_asked for cell in cells} == {2, 4, 8, 16}


def test_all_means_every_method_without_a_network_and_the_controls():
    labels = {variant.label for variant in list_variants()}
    assert {"acqh", "acqh-paper", "acqh rbf", "label-ridge", "random", "dch"} <= labels
    assert not {"deep-cmh", "ddcmh"} & labels


def test_methods_that_need_two_views_are_left_out_of_three():
    data = acqh.make_multiview(
        60, widths={"image": 4, "text": 5, "sound": 3}, n_labels=3, random_state=0
    )
    source = BenchData(data, hash_contents(data), {})
    labels = {cell.label for cell in fair_plan([source], grid_of(list_variants()))}
    assert "acqh" in labels
    assert "qch" not in labels


def test_a_method_can_be_run_with_kernel_maps():
    variant = make_variant("acqh kernel")
    assert variant.full_params({}, 3)["feature_maps"]["params"]["random_state"] == 3
    assert isinstance(make_maps(variant.feature_maps, 3), KernelMap)
    with pytest.raises(InvalidInputError, match="there are: rbf, kernel"):
        make_maps("poly", 0)


def test_an_argument_that_json_cannot_hold_is_refused():
    variant = make_variant("acqh")
    with pytest.raises(InvalidInputError, match="similarity"):
        variant.full_params({"similarity": np.dot}, 0)
    with pytest.raises(InvalidInputError, match="tol"):
        make_variant("acqh-paper").full_params({"tol": float("nan")}, 0)
    with pytest.raises(InvalidInputError, match="no feature maps"):
        make_variant("random rbf")


def test_data_are_known_by_their_contents(tmp_path, source):
    save_npz(source.data, tmp_path / "one.npz")
    save_npz(source.data, tmp_path / "two.npz")
    one, two = (open_data(str(tmp_path / f"{name}.npz")) for name in ("one", "two"))
    assert (one.data.name, two.data.name) == ("one", "two")
    assert one.sha256 == two.sha256 == source.sha256
    image = source.data.views["image"].copy()
    image[0, 0] += 1
    assert hash_contents(source.data.with_views(image=image)) != source.sha256
    with pytest.raises(DatasetNotFoundError, match="neither a file nor a data set"):
        open_data(str(tmp_path / "three.npz"))


def test_a_file_of_a_named_data_set_is_that_data_set(data_dir):
    by_file, by_name = open_data(str(data_dir / "wiki.npz")), open_data("wiki", data_dir)
    assert by_file.sha256 == by_name.sha256
    assert by_file.data.label_names == by_name.data.label_names


def test_preparation_is_fitted_on_training_rows_alone(source):
    described = {"text": {"class": "StandardScaler", "params": {}}}
    prepared_source = BenchData(source.data, source.sha256, described)
    split = make_split(source.data, "unlabelled", seed=0)
    prepared = prepare(prepared_source, split)
    np.testing.assert_array_equal(prepared.views["image"], source.data.views["image"])
    np.testing.assert_allclose(prepared.views["text"][split.train].mean(axis=0), 0, atol=1e-6)
    assert abs(prepared.views["text"][split.query].mean(axis=0)).max() > 1e-3


def test_random_codes_do_not_depend_on_the_order_of_calls(source):
    views = source.data.views
    control = RandomCodes(16, random_state=3).fit(views)
    codes = control.encode({"text": views["text"]})
    np.testing.assert_array_equal(control.encode({"text": views["text"][50:]}), codes[50:])
    assert codes.shape == (120, 2)
    assert (control.encode(dict(views)) != codes).mean() > 0.9
    other = RandomCodes(16, random_state=4).fit(views)
    assert (other.encode({"text": views["text"]}) != codes).mean() > 0.9
    assert abs(control.decode(codes).mean()) < 0.1


def test_time_is_expected_from_the_most_alike_cells(source):
    cells = fair_plan([source], grid_of([make_variant("acqh"), make_variant("dch")], seeds=(0,)))
    estimator = Estimator()
    assert estimator.seconds(cells[:2]) == 6
    for cell, seconds in zip(cells[:1], [10.0], strict=True):
        estimator.learn({**cell.header(), "status": "done", "seconds": seconds})
    assert estimator.seconds(cells) == 10 * len(cells)
    dch = next(cell for cell in cells if cell.label == "dch")
    estimator.learn({**dch.header(), "status": "done", "seconds": 2.0})
    estimator.learn({**dch.header(), "status": "failed", "seconds": 100.0})
    assert estimator.seconds([dch]) == 2
    assert estimator.seconds([cells[0]]) == 10
    assert [Estimator.describe(seconds) for seconds in (5, 300, 9000)] == ["5 s", "5 min", "2.5 h"]


def test_peak_memory_is_of_the_time_since_the_reset():
    reset_peak_memory()
    before = peak_memory()
    large = np.ones(30_000_000)
    assert peak_memory() - before > 0.9 * large.nbytes
    del large
    reset_peak_memory()
    assert peak_memory() < before + 200_000_000
