"""Reading the figures of a run, live or finished: all so far, the newest, or one after the other as they come.

>>> import tempfile
>>> from dgs.workers.observing.figure_lines import FiguresFile
>>> place = Path(tempfile.mkdtemp())
>>> file = FiguresFile(place, warn=print)
>>> for second in range(3):
...     file.add(RunFigures(t=float(second), events=10 * second))
>>> [figures.events for figures in history(place)], newest(place).events
([0, 10, 20], 20)
>>> [figures.events for figures in history(place, since=1.0)]
[10, 20]
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TextIO

from dgs.errors import InvalidError
from dgs.job import private_files
from dgs.workers.observing.figure_lines import CURRENT, Head, files_of, read_head, read_line
from dgs.workers.observing.figures import VERSION, RunFigures

LOOK_EVERY = 0.2
"""Seconds between two looks at a file that grows."""


class OtherFiguresError(InvalidError):
    """A file of figures was written by another version of dgs, with figures that have another meaning."""

    code = "DGS550"
    template = "{path} has figures of version {version}, and this dgs reads version {ours}"
    fix = "Look at the run with the dgs that ran it; its results.json and outputs are as ever"


class NoFiguresError(InvalidError):
    """A run has left no figures: it ran with `observe: off`, on an older dgs, or ended before the first."""

    code = "DGS551"
    template = "the run in {path} has no figures (`figures.ndjson`)"
    fix = "Its results are in results.json. A run leaves figures unless its plan file says `observe: off`"


def history(run_dir: Path, *, since: float = 0.0, most: int | None = None) -> list[RunFigures]:
    """Return the figures of a run so far, the oldest first; none if it has left none. A torn last line is left out.

    `since`: seconds since 1970. `most`: the largest number of figures, spread evenly, with the newest. Raises OtherFiguresError.
    """
    found: list[RunFigures] = []
    for path in files_of(run_dir):
        with open(path, encoding="utf-8", errors="replace", opener=private_files.opener) as file:
            found += [figures for figures in _figures(file, path) if figures.t >= since]
    if most is None or len(found) <= most:
        return found
    last = len(found) - 1
    return [found[last - number * last // max(most - 1, 1)] for number in reversed(range(most))]


def newest(run_dir: Path) -> RunFigures:
    """Return the newest figures of a run. Raises NoFiguresError, OtherFiguresError."""
    for path in reversed(files_of(run_dir)):
        with open(path, encoding="utf-8", errors="replace", opener=private_files.opener) as file:
            found = deque(_figures(file, path), maxlen=1)
        if found:
            return found[0]
    raise NoFiguresError(path=run_dir)


def follow(
    run_dir: Path, *, is_alive: Callable[[], bool] = lambda: True, sleep: Callable[[float], None] = time.sleep
) -> Iterator[RunFigures | None]:
    """Yield the newest figures of a run and then all later ones, until it is over or not alive. None: nothing new since the last look.

    `is_alive`: whether a process still runs it. Raises OtherFiguresError.
    """
    figures: RunFigures | None = None
    with closing(Tail(run_dir)) as tail:
        while figures is None or not figures.is_over:
            lives = is_alive()  # asked first, so that nothing is missed that the process wrote before its end
            news = tail.read()
            figures = news[-1] if news else figures
            yield from news
            if not lives:
                return
            if not news:
                yield None
                sleep(LOOK_EVERY)


class Tail:
    """The growing end of a run's figures: each `read` returns the new ones. The first one returns the newest figures only."""

    def __init__(self, run_dir: Path) -> None:
        self._path = run_dir / CURRENT
        self._file: TextIO | None = None
        self._head: Head | None = None
        self._torn = ""

    def read(self) -> list[RunFigures]:
        """Return the figures that were written since the last call. Raises OtherFiguresError."""
        is_first = self._file is None
        found = self._rest()
        if self._was_replaced() and self._open():
            found += self._rest()
        return found[-1:] if is_first else found

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _was_replaced(self) -> bool:
        """Return whether the file at the path is no longer the open one."""
        if self._file is None:
            return True
        try:
            there, here = self._path.stat(), os.fstat(self._file.fileno())
        except OSError:
            return False
        return (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino)

    def _open(self) -> bool:
        self.close()
        self._head, self._torn = None, ""
        try:
            self._file = open(self._path, encoding="utf-8", errors="replace", opener=private_files.opener)  # noqa: SIM115 - it stays open
        except OSError:
            return False
        return True

    def _rest(self) -> list[RunFigures]:
        if self._file is None:
            return []
        found = []
        for line in self._file:
            if not line.endswith("\n"):
                self._torn += line  # the rest of the line is not written yet
                break
            whole, self._torn = self._torn + line, ""
            if self._head is None:
                self._head = self._head_or_close(whole)
            elif (figures := read_line(whole, self._head)) is not None:
                found.append(figures)
        return found

    def _head_or_close(self, line: str) -> Head:
        try:
            return _head_of(line, self._path)
        except OtherFiguresError:
            self.close()
            raise


def _figures(file: TextIO, path: Path) -> Iterator[RunFigures]:
    first = file.readline()
    if not first.endswith("\n"):
        return
    head = _head_of(first, path)
    for line in file:
        figures = read_line(line, head)
        if figures is not None:
            yield figures


def _head_of(line: str, path: Path) -> Head:
    head = read_head(line)
    version = None if head is None else head.get("version")
    if head is None or version != VERSION:
        raise OtherFiguresError(path=path, version="unknown" if version is None else version, ours=VERSION)
    return head
