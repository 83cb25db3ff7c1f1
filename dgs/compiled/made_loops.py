"""Making the loops of a worker, and counting them: how many were compiled, how long that took, and how many were in the cache."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dgs.compiled.loop_files import is_ready, seconds_of, written
from dgs.compiled.lowering.loop_text import LoopText
from dgs.compiled.merged_run import Loop


class MadeLoops:
    """Makes loops of texts. `compiled`: how many were compiled for this worker. `cached`: how many were in the cache. `seconds`: of compiling."""

    def __init__(self, translate: Callable[[LoopText], Loop | None]) -> None:
        self._translate = translate
        self._awaited: set[Path] = set()
        self.compiled = self.cached = 0
        self.seconds = 0.0

    def __call__(self, text: LoopText) -> Loop | None:
        """Return a loop as machine code, None if it is not ready yet. Raises Refused."""
        path = written(text)
        was_there = is_ready(path) and path not in self._awaited
        loop = self._translate(text)
        if loop is None:
            self._awaited.add(path)
        elif was_there:
            self.cached += 1
        else:
            self.compiled += 1
            self.seconds += seconds_of(path)
        return loop
