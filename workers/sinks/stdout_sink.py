r"""The sink `stdout`: lines that are printed only as far as their reader reads, so that a run never waits inside a write.

A pipe or a terminal whose reader stops takes no more. Lines then wait here, and `show` goes on with them once the reader goes on.
Files, and texts in memory that stand for stdout, take all at once.

>>> sink = StdoutSink()
>>> sink.put(["1\n", "2\n"])
>>> sink.show()
1
2
True
>>> sink.is_behind
False
"""

from __future__ import annotations

import io
import os
import select
import stat
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from dgs.workers.storage.disk import refusing

STDOUT = Path("stdout")
"""The place in errors."""

LINES_AT_ONCE = 256
"""Lines that are taken from their source together."""

BYTES_AT_ONCE = 2**20
"""The bytes that one call of `show` gives a reader, so that its caller gets back to its other work."""


class StdoutSink:
    """Lines for stdout, in the order of `put`."""

    def __init__(self) -> None:
        self._sources: deque[Iterator[str]] = deque()
        self._text = b""
        self._shown = 0  # bytes of the text

    def put(self, lines: Iterable[str]) -> None:
        """Let lines follow those that wait. They are taken from their source as they are printed."""
        self._sources.append(iter(lines))

    @property
    def is_behind(self) -> bool:
        """Whether lines wait."""
        return self._shown < len(self._text) or bool(self._sources)

    def show(self, *, within: float = 0.0) -> bool:
        """Print what the reader takes, and wait so many seconds for it to take anything; return whether it did.

        Raises BrokenPipeError if there is no reader any more, OutputUnwritableError if lines cannot be printed.
        """
        if not self.is_behind:
            return True
        try:
            with refusing(STDOUT):
                slow = _slow_reader()
                return self._show_all() if slow is None else self._show_some(slow, within)
        except Exception as error:
            if isinstance(error.__cause__, BrokenPipeError):
                raise error.__cause__ from None
            raise

    def left(self) -> Iterator[str]:
        """Remove and yield the lines that are not printed, or not to their end."""
        begun = self._text.rfind(b"\n", 0, self._shown) + 1
        if self._shown < len(self._text):
            yield self._text[begun:].decode()
        self._text, self._shown = b"", 0
        while self._sources:
            yield from self._sources.popleft()

    def _show_all(self) -> bool:
        sys.stdout.writelines(self.left())
        sys.stdout.flush()
        return True

    def _show_some(self, file: int, within: float) -> bool:
        given = 0
        while self._is_filled() and given < BYTES_AT_ONCE:
            if not select.select([], [file], [], 0.0 if given else within)[1]:
                break
            # A pipe that can be written to has room for so much, so this write does not wait.
            written = os.write(file, self._text[self._shown : self._shown + select.PIPE_BUF])
            self._shown += written
            given += written
        return given > 0

    def _is_filled(self) -> bool:
        """Take the next lines if all before them are printed; return whether there are any."""
        while self._shown == len(self._text) and self._sources:
            lines = list(islice(self._sources[0], LINES_AT_ONCE))
            if not lines:
                self._sources.popleft()
            self._text, self._shown = "".join(lines).encode(), 0
        return self._shown < len(self._text)


def _slow_reader() -> int | None:
    """Return the file descriptor of stdout if a reader may keep a write waiting; what was printed before is then written."""
    out = sys.stdout
    if not isinstance(out, io.TextIOWrapper) or not isinstance(
        getattr(out.buffer, "raw", out.buffer), io.FileIO
    ):
        return None
    mode = os.fstat(out.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)):
        return None
    out.flush()
    return out.fileno()
