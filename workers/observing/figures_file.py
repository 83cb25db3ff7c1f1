"""The file of a run's figures: `figures.ndjson` in the run directory, bounded however long the run is.

A full file becomes `figures.1.ndjson`, and what was that before is thinned into `figures.old.ndjson`. So the last half hour at least is
there in full (less if lines are long), and before that one line of ten, or fewer, so that it grows by at most 1 MB an hour. When that
file is full, too, every second line of it is left out.

Law: a failed write ends the writing, with one warning, and never the run.

>>> import tempfile
>>> place = Path(tempfile.mkdtemp())
>>> file = FiguresFile(place, warn=print)
>>> file.add(RunFigures(t=1.0, events=5))
>>> [path.name for path in files_of(place)], len((place / CURRENT).read_text().splitlines())
(['figures.ndjson'], 2)
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dgs.errors.hidden_values import masked
from dgs.job import private_files
from dgs.workers.observing.figure_lines import head_line, line_of
from dgs.workers.observing.figures import RunFigures

CURRENT, PREVIOUS, OLD = "figures.ndjson", "figures.1.ndjson", "figures.old.ndjson"

MOST_SECONDS = 1800.0
"""The time that one file covers."""

MOST_BYTES = 16 << 20
"""The size at which a file is full although it covers a shorter time."""

OLD_BYTES_AN_HOUR = 1 << 20
"""The bytes that an hour of thinned lines may take."""

LEAST_STEP = 10
"""At most one line of so many is kept when a file is thinned."""

MOST_OLD_BYTES = 32 << 20
"""The size at which thinned lines are thinned again."""


def files_of(directory: Path) -> list[Path]:
    """Return the files of figures in a run directory, the oldest first."""
    return [path for name in (OLD, PREVIOUS, CURRENT) if (path := directory / name).is_file()]


class FiguresFile:
    """Appends figures to the file of a run. `warn` gets a sentence when the writing ends because of an error."""

    def __init__(self, directory: Path, *, warn: Callable[[str], None]) -> None:
        self._directory, self._warn = directory, warn
        self._size, self._began, self._is_off = 0, 0.0, False

    def add(self, figures: RunFigures) -> None:
        """Append figures."""
        if self._is_off:
            return
        try:
            self._add(figures)
        except OSError as error:
            self._is_off = True
            problem = error.strerror or str(error)
            self._warn(f"figures of the run are not written any more, since {problem}: the run goes on")

    def _add(self, figures: RunFigures) -> None:
        path = self._directory / CURRENT
        if self._size == 0 and path.exists():  # of an earlier process of this run
            _thin(self._directory)
        if self._size > MOST_BYTES or (self._size and figures.t - self._began > MOST_SECONDS):
            _thin(self._directory)
            self._size = 0
        text = f"{masked(line_of(figures))}\n"
        if self._size == 0:
            text, self._began = f"{head_line()}\n{text}", figures.t
        with open(path, "a", encoding="utf-8", opener=private_files.opener) as file:
            file.write(text)
        self._size += len(text)


def _thin(directory: Path) -> None:
    """Put the current file in the place of the previous one, and some lines of that one into the old one."""
    current, previous, old = directory / CURRENT, directory / PREVIOUS, directory / OLD
    if previous.exists():
        first, *lines = _lines(previous)
        kept = lines[:: _step(lines)]
        before = _lines(old) if old.exists() else []
        if before[:1] != [
            first
        ]:  # lines of another version stay in files of their own only as long as these are new
            before = [first]
        if sum(map(len, before)) + sum(map(len, kept)) > MOST_OLD_BYTES:
            before = [first, *before[1::2]]
        draft = old.with_name(f"{OLD}.draft")
        with open(draft, "w", encoding="utf-8", opener=private_files.opener) as file:
            file.writelines([*before, *kept])
        draft.replace(old)
    current.replace(previous)


def _lines(path: Path) -> list[str]:
    with path.open(encoding="utf-8") as file:
        lines = file.readlines()
    if lines and not lines[-1].endswith("\n"):
        lines.pop()  # torn
    return lines or [f"{head_line()}\n"]


def _step(lines: list[str]) -> int:
    """Return of how many lines one is kept, so that these grow by OLD_BYTES_AN_HOUR at most."""
    size, seconds = sum(map(len, lines)), 0.0
    with suppress(ValueError, KeyError, IndexError):
        seconds = json.loads(lines[-1])["t"] - json.loads(lines[0])["t"]
    allowed = OLD_BYTES_AN_HOUR * max(seconds, 1.0) / 3600
    return max(LEAST_STEP, -(-size // max(int(allowed), 1)))
