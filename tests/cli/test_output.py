"""Progress and results on the terminal."""

import io

import pytest

from acqh.cli._output import Reporter, make_bar, output


def test_without_a_terminal_progress_prints_a_line_every_ten_seconds(capsys):
    times = iter([0.0, 1.0, 9.9, 10.0, 11.0, 19.0, 25.0, 40.0])
    report = Reporter(clock=lambda: next(times))
    for done in (1, 2, 300, 400, 500, 600):
        report(done, 1200, "encoding images")
    report(0, None, "learning")
    assert capsys.readouterr().err.splitlines() == [
        "encoding images, 300 of 1,200 (25%)",
        "encoding images, 600 of 1,200 (50%)",
        "learning",
    ]


def test_a_bar_starts_again_with_every_step_but_not_with_every_item():
    bar = make_bar()
    report = Reporter(bar)
    report(3, 4, "running: one")
    first = bar.task_ids
    report(4, 4, "running: another")
    assert bar.task_ids == first
    assert (bar.tasks[0].completed, bar.tasks[0].total) == (4, 4)
    report(0, None, "learning")
    assert bar.task_ids != first
    assert (bar.tasks[0].description, bar.tasks[0].total) == ("learning", None)


@pytest.mark.parametrize("width", [80, 60])
def test_progress_is_one_line_at_any_width_and_spins_where_the_length_is_unknown(width):
    shown = io.StringIO()
    bar = make_bar(width=width, file=shown, force_terminal=True)
    report = Reporter(bar)
    report(1_000_000, 2_000_000, "running: wiki, labelled, acqh-paper rbf 128, seed 4; 3 h left")
    bar.console.print(bar.get_renderable())
    report(0, None, "learning codebooks")
    bar.console.print(bar.get_renderable())
    bounded, unknown = shown.getvalue().splitlines()
    assert "1,000,000/2,000,000" in bounded
    assert "wiki, labelled" in bounded
    assert "learning code" in unknown
    assert "?" not in unknown


def test_a_quiet_report_prints_nothing(capsys, monkeypatch):
    monkeypatch.setattr(output, "quiet", True)
    times = iter([0.0, 99.0])
    Reporter(clock=lambda: next(times))(3, 4, "encoding images")
    assert capsys.readouterr().err == ""
