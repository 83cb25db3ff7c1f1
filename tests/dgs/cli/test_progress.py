"""Progress on stderr: how often a line is printed, and its prefix."""

from dgs.cli.loudness import Progress
from dgs.observe import RunFigures


def figures(t, events):
    return RunFigures(t=t, name="sums", events=events, outputs=5)


def test_status_lines_come_every_ten_seconds_without_a_terminal(capsys):
    times = iter([0.0, 4.0, 11.0, 12.0, 22.0])
    progress = Progress(clock=lambda: next(times))
    for t, events in ((4.0, 400), (11.0, 1100), (12.0, 1200), (22.0, 2200)):
        progress(figures(t, events))
        progress.take_rows(4000, 3000)
    assert capsys.readouterr().err == (
        "dgs: sums: Spark read 4,000 rows, 3,000 are in the log, 1,100 events, 5 outputs, 100 events/s (100 on average)\n"
        "dgs: sums: Spark read 4,000 rows, 3,000 are in the log, 2,200 events, 5 outputs, 100 events/s (100 on average)\n"
    )


def test_live_line_shows_the_rows_of_spark_once_there_are_some():
    lines = []
    progress = Progress(lines.append)
    progress(figures(1.0, 100))
    progress.take_rows(4000, 3000)
    progress(figures(2.0, 200))
    assert lines[0] == "sums: 100 events, 5 outputs"
    assert "4,000" in lines[1] or len(lines[1]) <= 80


def test_the_end_of_a_run_makes_no_line():
    lines = []
    Progress(lines.append)(RunFigures(t=1.0, phase="done"))
    assert lines == []
