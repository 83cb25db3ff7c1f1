"""Reading figures: live and finished, over rotations, torn lines, other versions."""

from dataclasses import replace

import pytest

from dgs.observe import NoFiguresError, OtherFiguresError, Tail, follow, history, newest
from dgs.workers.observing import figure_lines
from dgs.workers.observing.figure_lines import CURRENT, FiguresFile
from dgs.workers.observing.figures import RunFigures

ONE = RunFigures(t=1.0, events=5)


@pytest.fixture
def file(tmp_path):
    return FiguresFile(tmp_path, warn=pytest.fail)


def test_a_run_without_figures_has_no_history_and_no_newest_ones(tmp_path):
    assert history(tmp_path) == []
    with pytest.raises(NoFiguresError, match="has no figures"):
        newest(tmp_path)


def test_a_torn_last_line_is_left_out(tmp_path, file):
    file.add(ONE)
    with (tmp_path / CURRENT).open("a") as torn:
        torn.write('{"t": 2.0, "eve')
    assert (history(tmp_path), newest(tmp_path)) == ([ONE], ONE)


def test_a_file_of_which_only_a_part_of_the_first_line_is_there_has_no_figures(tmp_path):
    (tmp_path / CURRENT).write_text('{"kind": "dgs fig')
    assert history(tmp_path) == []


@pytest.mark.parametrize("head", ['{"kind": "dgs figures", "version": 0}', "nothing of ours"])
def test_a_file_of_another_version_is_named(tmp_path, head):
    (tmp_path / CURRENT).write_text(f"{head}\n")
    for read in (history, newest, lambda place: Tail(place).read()):
        with pytest.raises(OtherFiguresError, match=CURRENT):
            read(tmp_path)


def test_at_most_so_many_are_spread_evenly_with_the_newest(tmp_path, file):
    for second in range(11):
        file.add(replace(ONE, t=float(second)))
    assert [figures.t for figures in history(tmp_path, most=3)] == [0.0, 5.0, 10.0]
    assert [figures.t for figures in history(tmp_path, most=1)] == [10.0]


def test_a_tail_gives_the_newest_and_then_each_new_line_also_over_rotations(tmp_path, file, monkeypatch):
    monkeypatch.setattr(figure_lines, "MOST_SECONDS", 3.0)
    tail, seen = Tail(tmp_path), []
    assert tail.read() == []
    file.add(replace(ONE, t=-1.0))
    file.add(replace(ONE, t=0.0))
    for second in range(1, 20):
        seen += tail.read()
        file.add(replace(ONE, t=float(second)))
    seen += tail.read()
    tail.close()
    assert [figures.t for figures in seen] == [float(second) for second in range(20)]


def test_a_line_that_comes_in_two_parts_is_read_once_it_is_whole(tmp_path, file):
    file.add(ONE)
    path, tail = tmp_path / CURRENT, Tail(tmp_path)
    *_, line = path.read_text().splitlines()
    assert tail.read() == [ONE]
    for part, found in ((line[:9], []), (line[9:] + "\n", [ONE])):
        with path.open("a") as rest:
            rest.write(part)
        assert tail.read() == found
    tail.close()


def test_following_ends_with_the_run(tmp_path, file):
    file.add(ONE)
    over = replace(ONE, t=2.0, phase="done")
    assert list(follow(tmp_path, sleep=lambda _: file.add(over))) == [ONE, None, over]


def test_following_ends_when_no_process_runs_it(tmp_path, file):
    file.add(ONE)
    assert list(follow(tmp_path, is_alive=lambda: False)) == [ONE]
