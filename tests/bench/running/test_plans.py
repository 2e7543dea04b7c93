import itertools

import numpy as np
import pytest

import acqh
from acqh.bench.protocol import make_split
from acqh.bench.running.evaluate import BenchData, hash_contents, open_data, prepare
from acqh.bench.running.runs import (
    CODE_LENGTHS,
    build,
    plan_runs,
)
from acqh.bench.running.store import as_duration, expected_seconds
from acqh.bench.running.trivial import RandomCodes
from acqh.bench.running.variants import list_variants, make_maps, make_variant
from acqh.bench.running.worker import peak_memory, reset_peak_memory
from acqh.data import save_npz
from acqh.errors import DatasetNotFoundError, InvalidInputError
from acqh.features import KernelMap


@pytest.fixture(scope="module")
def source():
    data = acqh.make_multiview(120, n_labels=3, random_state=0)
    return BenchData(data, hash_contents(data), {})


def runs_of(source, variants, seeds=(0, 1)):
    protocols = ("labelled", "unlabelled")
    return plan_runs(
        [source], variants, lengths=CODE_LENGTHS, protocols=protocols, seeds=seeds, n_threads=1
    )


def test_every_method_gets_the_bytes_requested_for(source):
    train = source.data
    for run in runs_of(source, list_variants(), seeds=(0,)):
        if run.protocol == "labelled" and run.bytes_requested == 2:
            method = build(run)
            assert method.info.name == run.method
            if run.method in ("acqh", "ccq", "stacked", "random", "dch"):
                assert method.fit(train.views, train.labels).bytes_per_item == 2


def test_an_unlabelled_database_is_encoded_in_every_way_that_needs_no_labels(source):
    runs = runs_of(source, [make_variant("acqh"), make_variant("label-ridge")])
    modes = {
        (run.label, run.protocol): {
            other.database
            for other in runs
            if (other.label, other.protocol) == (run.label, run.protocol)
        }
        for run in runs
    }
    for label in ("acqh", "label-ridge"):
        assert modes[label, "labelled"] == {"training"}
        assert modes[label, "unlabelled"] == {"single", "fused"}
    trivial = [run for run in runs if run.label == "label-ridge"]
    assert len(trivial) == 2 * 3
    assert all(run.bytes_requested is None for run in trivial)


def test_a_method_with_at_least_two_bytes_per_item_is_not_run_with_one(source):
    runs = runs_of(source, [make_variant("ccq")])
    assert {run.bytes_requested for run in runs} == {2, 4, 8, 16}


def test_all_means_every_method_without_a_network_and_trivial_baselines():
    labels = {variant.label for variant in list_variants()}
    assert {"acqh", "acqh-paper", "acqh rbf", "label-ridge", "cca", "random", "dch"} <= labels
    assert not {"deep-cmh", "ddcmh"} & labels


def test_methods_for_two_views_are_skipped_with_three():
    data = acqh.make_multiview(
        60, widths={"image": 4, "text": 5, "sound": 3}, n_labels=3, random_state=0
    )
    source = BenchData(data, hash_contents(data), {})
    labels = {run.label for run in runs_of(source, list_variants())}
    assert "acqh" in labels
    assert "qch" not in labels


def test_a_method_can_be_run_with_kernel_maps():
    variant = make_variant("acqh kernel")
    assert variant.full_params({}, 3)["feature_maps"]["params"]["random_state"] == 3
    assert isinstance(make_maps(variant.feature_maps, 3), KernelMap)
    with pytest.raises(InvalidInputError, match="rbf, kernel"):
        make_maps("poly", 0)


def test_an_argument_that_json_cannot_hold_is_rejected():
    variant = make_variant("acqh")
    with pytest.raises(InvalidInputError, match="similarity"):
        variant.full_params({"similarity": np.dot}, 0)
    with pytest.raises(InvalidInputError, match="tol"):
        make_variant("acqh-paper").full_params({"tol": float("nan")}, 0)
    with pytest.raises(InvalidInputError, match="no feature maps"):
        make_variant("random rbf")


def test_data_are_identified_by_their_contents(tmp_path, source):
    save_npz(source.data, tmp_path / "one.npz")
    save_npz(source.data, tmp_path / "two.npz")
    one, two = (open_data(str(tmp_path / f"{name}.npz")) for name in ("one", "two"))
    assert (one.data.name, two.data.name) == ("one", "two")
    assert one.sha256 == two.sha256 == source.sha256
    image = source.data.views["image"].copy()
    image[0, 0] += 1
    assert hash_contents(source.data.with_views(image=image)) != source.sha256
    with pytest.raises(DatasetNotFoundError, match="neither"):
        open_data(str(tmp_path / "three.npz"))


def test_a_file_of_a_named_data_set_is_that_data_set(data_dir):
    by_file, by_name = open_data(str(data_dir / "wiki.npz")), open_data("wiki", data_dir)
    assert by_file.sha256 == by_name.sha256
    assert by_file.data.label_names == by_name.data.label_names


def test_preparation_is_fitted_on_training_rows_alone(source):
    preparation = {"text": {"class": "StandardScaler", "params": {}}}
    prepared_source = BenchData(source.data, source.sha256, preparation)
    split = make_split(source.data, "unlabelled", seed=0)
    prepared = prepare(prepared_source, split)
    np.testing.assert_array_equal(prepared.views["image"], source.data.views["image"])
    np.testing.assert_allclose(prepared.views["text"][split.train].mean(axis=0), 0, atol=1e-6)
    assert abs(prepared.views["text"][split.query].mean(axis=0)).max() > 1e-3


def test_random_codes_do_not_depend_on_the_order_of_calls(source):
    views = source.data.views
    trivial = RandomCodes(16, random_state=3).fit(views)
    codes = trivial.encode({"text": views["text"]})
    np.testing.assert_array_equal(trivial.encode({"text": views["text"][50:]}), codes[50:])
    assert codes.shape == (120, 2)
    assert (trivial.encode(dict(views)) != codes).mean() > 0.9
    other = RandomCodes(16, random_state=4).fit(views)
    assert (other.encode({"text": views["text"]}) != codes).mean() > 0.9
    assert abs(trivial.decode(codes).mean()) < 0.1


def test_the_time_estimate_uses_the_most_similar_runs(source):
    runs = runs_of(source, [make_variant("acqh"), make_variant("dch")], seeds=(0,))
    assert expected_seconds(runs[:2], []) == 6
    records = [{**runs[0].header(), "status": "done", "seconds": 10.0}]
    assert expected_seconds(runs, records) == 10 * len(runs)
    dch = next(run for run in runs if run.label == "dch")
    records.append({**dch.header(), "status": "done", "seconds": 2.0})
    records.append({**dch.header(), "status": "failed", "seconds": 100.0})
    assert expected_seconds([dch], records) == 2
    assert expected_seconds([runs[0]], records) == 10
    assert [as_duration(seconds) for seconds in (5, 300, 9000)] == ["5 s", "5 min", "2.5 h"]


def test_runs_of_one_fit_are_adjacent_and_unique(source):
    runs = runs_of(source, [make_variant("acqh"), make_variant("acqh")], seeds=(0,))
    fits = [run.fit_key for run in runs]
    assert len({run.key for run in runs}) == len(runs)
    assert sum(a != b for a, b in itertools.pairwise(fits)) == len(set(fits)) - 1


def test_peak_memory_is_of_the_time_since_the_reset():
    reset_peak_memory()
    before = peak_memory()
    large = np.ones(30_000_000)
    assert peak_memory() - before > 0.9 * large.nbytes
    del large
    reset_peak_memory()
    assert peak_memory() < before + 200_000_000


def test_splits_start_at_the_seed():
    data = acqh.make_multiview(120, n_labels=3, random_state=0)
    planned = acqh.bench.plan(
        data, out="results", methods=["dch"], bits=[8], n_splits=2, random_state=7
    )
    assert {run.seed for run in planned.runs} == {7, 8}
