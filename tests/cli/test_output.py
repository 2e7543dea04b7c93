"""What commands show while they work."""

from acqh.cli._output import BarReporter, LineReporter, Reporter, make_bar


def test_without_a_terminal_a_line_comes_every_ten_seconds(capsys):
    times = iter([0.0, 1.0, 9.9, 10.0, 11.0, 19.0, 25.0, 40.0])
    report = LineReporter(clock=lambda: next(times))
    for done in (1, 2, 300, 400, 500, 600):
        report(done, 1200, "describing images")
    report(0, None, "learning")
    assert capsys.readouterr().err.splitlines() == [
        "describing images, 300 of 1,200 (25%)",
        "describing images, 600 of 1,200 (50%)",
        "learning",
    ]


def test_a_bar_starts_again_with_every_step_but_not_with_every_item():
    bar = make_bar()
    report = BarReporter(bar)
    report(3, 4, "running: one")
    first = bar.task_ids
    report(4, 4, "running: another")
    assert bar.task_ids == first
    assert (bar.tasks[0].completed, bar.tasks[0].total) == (4, 4)
    report(0, None, "learning")
    assert bar.task_ids != first
    assert (bar.tasks[0].description, bar.tasks[0].total) == ("learning", None)


def test_a_quiet_report_says_nothing(capsys):
    Reporter()(3, 4, "describing images")
    assert capsys.readouterr().err == ""
