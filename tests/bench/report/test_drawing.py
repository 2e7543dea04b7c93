import pytest

from acqh.bench.report.plots import Panel, Plot, Series, draw, plots_of
from acqh.bench.report.results import load_results
from acqh.bench.report.tables import compare

HOSTILE = "<script>alert('$1')</script>"


@pytest.fixture(scope="module")
def plot():
    series = (
        Series("acqh", "ours", (1, 2, 4), (0.25, 0.35, 0.45)),
        Series("dch", "baseline", (1, 2, 4), (0.2, 0.3, 0.35)),
        Series(HOSTILE, "baseline", (4,), (0.1,)),
        Series("_mine", "baseline", (1, 2), (0.12, 0.13)),
        Series("label-ridge", "trivial", (), (0.5,)),
    )
    panels = (Panel("image → text", series), Panel("text → image", series[:2]))
    return Plot("a-plot", "Quality", "A & b.", "bytes", "MAP@all", panels, x_log=True)


@pytest.mark.parametrize(
    ("kind", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")]
)
def test_a_figure_is_the_same_every_time(plot, kind, start):
    drawn = draw(plot, kind)
    assert drawn.startswith(start)
    assert draw(plot, kind) == drawn


def test_names_are_written_and_escaped(plot):
    text = draw(plot).decode()
    assert "<script" not in text
    assert "&lt;script&gt;alert('$1')&lt;/script&gt;" in text
    assert "_mine</text>" in text


def test_plots_of_hold_the_means_over_seeds(written):
    for n_bytes, value in ((1, 0.2), (4, 0.4)):
        for seed in (0, 1):
            written.add("dch", ap=[value + 0.1 * seed], seed=seed, bytes_requested=n_bytes,
                        params={"n_bits": 8 * n_bytes})  # fmt: skip
    written.add("label-ridge", params={}, ap=[0.5])
    results = load_results(written.path)
    plots = {p.name.rpartition("-")[2]: p for p in plots_of(results, compare(results)[0])}
    trivial, dch = plots["bytes"].panels[0].series
    assert (dch.x, dch.y) == ((1, 4), pytest.approx((0.25, 0.45)))
    assert (trivial.x, trivial.y) == ((), (0.5,))
    assert plots["time"].panels[0].series[1].y == pytest.approx((0.45,))
    assert plots["topn"].panels[0].series[0].y == pytest.approx((0.9, 0.8, 0.7))
    assert plots["pr"].panels[1].series[0].x[0] == pytest.approx(0.1)
