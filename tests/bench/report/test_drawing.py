import pytest

from acqh.bench.report.comparisons import fair_comparisons
from acqh.bench.report.drawing import draw
from acqh.bench.report.plots import Panel, Plot, Series, fair_plots, study_plots
from acqh.bench.report.results import load_results

HOSTILE = "<script>alert('$1')</script>"


@pytest.fixture(scope="module")
def plot():
    series = (
        Series("acqh", "ours", (1, 2, 4), (0.25, 0.35, 0.45)),
        Series("dch", "baseline", (1, 2, 4), (0.2, 0.3, 0.35)),
        Series(HOSTILE, "baseline", (4,), (0.1,)),
        Series("_mine", "baseline", (1, 2), (0.12, 0.13)),
        Series("label-ridge", "control", (), (0.5,)),
    )
    panels = (Panel("image → text", series), Panel("text → image", series[:2]))
    return Plot("a-plot", "Quality", "A & b.", "bytes", "MAP@all", panels, x_log=True)


@pytest.fixture(scope="module")
def drawn(plot):
    return draw(plot)


def test_figures_come_in_three_formats_and_are_the_same_every_time(plot, drawn):
    assert drawn["png"].startswith(b"\x89PNG")
    assert drawn["pdf"].startswith(b"%PDF")
    assert drawn["svg"].startswith(b"<?xml")
    again = draw(plot)
    assert again["svg"] == drawn["svg"]
    assert again["pdf"] == drawn["pdf"]


def test_names_are_written_and_escaped(drawn):
    text = drawn["svg"].decode()
    assert "<script" not in text
    assert "&lt;script&gt;alert('$1')&lt;/script&gt;" in text
    assert "_mine</text>" in text


def test_fair_plots_hold_the_means_over_seeds(written):
    for n_bytes, value in ((1, 0.2), (4, 0.4)):
        for seed in (0, 1):
            written.add("dch", ap=[value + 0.1 * seed], seed=seed, bytes_asked=n_bytes,
                        params={"n_bits": 8 * n_bytes})  # fmt: skip
    written.add("label-ridge", params={}, ap=[0.5])
    results = load_results(written.path)
    plots = {
        p.name.rpartition("-")[2]: p for p in fair_plots(results, fair_comparisons(results)[0])
    }
    control, dch = plots["bytes"].panels[0].series
    assert (dch.x, dch.y) == ((1, 4), pytest.approx((0.25, 0.45)))
    assert (control.x, control.y) == ((), (0.5,))
    assert plots["time"].panels[0].series[1].y == pytest.approx((0.45,))
    assert plots["topn"].panels[0].series[0].y == pytest.approx((0.9, 0.8, 0.7))
    assert plots["pr"].panels[1].series[0].x[0] == pytest.approx(0.1)


def test_studies_are_drawn_as_far_as_they_were_run(written):
    assert written.add("acqh-paper", experiments=["fair"])
    assert study_plots(load_results(written.path)) == []
    for value in (1e-2, 1e-1):
        written.add("acqh-paper", objective=[4.0, 2.0, 1.0], params={"label_ridge": value},
                    experiments=["sensitivity-mu", "convergence"])  # fmt: skip
    for n_train in (100, 200):
        written.add("acqh-paper", experiments=["training-size"], n_train=n_train,
                    row={"n_train": n_train, "fit_seconds": n_train / 10})  # fmt: skip
    plots = {plot.name: plot for plot in study_plots(load_results(written.path))}
    assert set(plots) == {"training-size", "convergence", "sensitivity-mu"}
    assert plots["training-size"].panels[0].series[0].y == (10, 20)
    assert plots["convergence"].panels[0].series[0].y == (1, 0.5, 0.25)
    assert plots["sensitivity-mu"].panels[1].series[0].x == (1e-2, 1e-1)
