"""The file of a run's figures: bounded, thinned, and harmless to the run."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from dgs.workers.observing import figure_lines
from dgs.workers.observing.figure_lines import CURRENT, OLD, PREVIOUS, FiguresFile, files_of
from dgs.workers.observing.figures import RunFigures, StreamFigures

HOUR = 3600


def times(path):
    return [json.loads(line)["t"] for line in path.read_text().splitlines()[1:]]


def written(place, seconds, figures=RunFigures(), first=0):  # noqa: B008 - immutable
    file = FiguresFile(place, warn=pytest.fail)
    for second in range(first, first + seconds):
        file.add(replace(figures, t=float(second)))


def test_the_last_half_hour_is_there_in_full_and_one_of_ten_before(tmp_path):
    written(tmp_path, 2 * HOUR)
    recent = [*times(tmp_path / PREVIOUS), *times(tmp_path / CURRENT)]
    assert recent == [float(second) for second in range(int(recent[0]), 2 * HOUR)]
    assert len(recent) >= HOUR / 2
    old = times(tmp_path / OLD)
    # 1: from one file to the next
    assert {later - earlier for earlier, later in pairwise(old)} <= {1.0, 10.0}
    assert len(old) == pytest.approx(recent[0] / 10, abs=3)


def test_a_wide_run_leaves_a_megabyte_an_hour(tmp_path, monkeypatch):
    monkeypatch.setattr(figure_lines, "MOST_BYTES", 1 << 20)
    wide = RunFigures(streams={f"s{i}": StreamFigures(rows=10**6 + i, frontier=10**12) for i in range(100)})
    written(tmp_path, HOUR // 4, wide)
    sizes = {path.name: path.stat().st_size for path in files_of(tmp_path)}
    assert sizes[CURRENT] + sizes[PREVIOUS] < 2.2 * (1 << 20)
    assert sizes[OLD] < (1 << 20) / 4 + 20_000


def test_thinned_lines_are_thinned_again_when_there_are_too_many(tmp_path, monkeypatch):
    monkeypatch.setattr(figure_lines, "MOST_OLD_BYTES", 5_000)
    written(tmp_path, 4 * HOUR)
    assert (tmp_path / OLD).stat().st_size < 12_000
    assert times(tmp_path / OLD)[0] < HOUR


def test_a_later_process_resumes_the_run(tmp_path):
    written(tmp_path, 3)
    with (tmp_path / CURRENT).open("a") as file:
        file.write('{"t": 3.0, "wor')
    written(tmp_path, 3, first=10)
    assert (times(tmp_path / CURRENT), len(files_of(tmp_path))) == ([10.0, 11.0, 12.0], 2)


def test_a_failed_write_ends_the_writing_with_one_warning(tmp_path):
    said = []
    file = FiguresFile(tmp_path / "gone", warn=said.append)
    for second in range(3):
        file.add(RunFigures(t=float(second)))
    assert len(said) == 1
    assert "No such file or directory: the run goes on" in said[0]
