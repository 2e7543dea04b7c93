"""Mean average precision on Wiki, official split, compared with known results."""

import warnings

import pytest

import acqh
from acqh.bench import evaluate, make_split
from acqh.errors import FewerBitsWarning


@pytest.fixture(scope="module")
def wiki(data_dir):
    return acqh.load_dataset("wiki", data_dir=data_dir)


@pytest.fixture(scope="module")
def measure(wiki):
    """Return image->text and text->image MAP over the whole ranking."""
    split = make_split(wiki, "labelled", official=True)

    def precision_of(method, *arguments, database, **parameters):
        model = acqh.methods.get(method)(*arguments, **parameters)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FewerBitsWarning)
            rows = evaluate(model, wiki, split, database=database)
        return [row.map_all for row in rows]

    return precision_of


@pytest.mark.parametrize(
    ("n_bits", "published"),
    [
        (16, (0.2210, 0.2134)),
        (32, (0.2337, 0.2366)),
        (64, (0.2442, 0.2479)),
        (128, (0.2596, 0.2573)),
    ],
)
def test_scm_seq_gives_the_published_results(measure, n_bits, published):
    result = measure("scm-seq", n_bits, database="single", stop_at_rise=False)
    assert result == pytest.approx(published, abs=1e-3)


@pytest.mark.parametrize(("n_bits", "expected"), [(16, (0.234, 0.226)), (32, (0.241, 0.246))])
def test_scm_seq_that_stops_at_a_rise_is_a_little_better(measure, n_bits, expected):
    result = measure("scm-seq", n_bits, database="single")
    assert result == pytest.approx(expected, abs=1e-3)


# Centred text of Wiki spans 9 dimensions: its 10 topic weights sum to one.
@pytest.mark.parametrize(
    ("method", "expected"), [("cvh", (0.189, 0.184)), ("scm-orth", (0.169, 0.175))]
)
def test_correlation_methods_use_the_nine_available_directions(measure, method, expected):
    assert measure(method, 16, database="single") == pytest.approx(expected, abs=5e-3)


def test_qch_at_eight_bits_and_at_the_nine_that_ten_classes_give(measure):
    assert measure("qch", 8, database="single", random_state=0) == pytest.approx(
        (0.220, 0.260), abs=0.03
    )
    assert measure("qch", 32, database="single", random_state=0) == pytest.approx(
        (0.213, 0.245), abs=0.03
    )


@pytest.mark.parametrize(
    ("method", "size", "database", "expected"),
    [
        ("ccq", 2, "fused", (0.165, 0.300)),
        ("ccq", 4, "fused", (0.171, 0.343)),
        ("ccq", 8, "fused", (0.173, 0.357)),
        ("ccq", 4, "single", (0.224, 0.159)),
        ("cmfh", 16, "fused", (0.226, 0.515)),
        ("cmfh", 32, "fused", (0.243, 0.520)),
        ("cmfh", 32, "single", (0.247, 0.237)),
        ("cre", 16, "training", (0.240, 0.524)),
        ("cre", 32, "training", (0.250, 0.542)),
        ("ksh", 16, "training", (0.263, 0.591)),
        ("fsh", 16, "single", (0.243, 0.242)),
        ("fsh", 32, "single", (0.248, 0.254)),
        ("fsh", 32, "fused", (0.233, 0.487)),
    ],
)
def test_a_method_reaches_the_score_of_its_prototype(measure, method, size, database, expected):
    result = measure(method, size, database=database, random_state=0)
    assert result == pytest.approx(expected, abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_bits", "published"),
    [(16, (0.2141, 0.5031)), (32, (0.2216, 0.5224)), (64, (0.2218, 0.5293))],
)
def test_lssh_gives_about_the_published_results(measure, n_bits, published):
    result = measure("lssh", n_bits, database="fused", random_state=0)
    assert result == pytest.approx(published, abs=0.017)
