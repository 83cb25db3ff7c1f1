"""Sources as users write them, for the tests of custom sources."""

from typing import ClassVar

from dgs.connectors import Source


class Numbers(Source):
    """Rows from a list of (ts, value), `size` at a time. `reads`: the start position of each object."""

    reads: ClassVar = []
    closed: ClassVar = []

    def __init__(self, rows=(), size=2, name="numbers"):
        self.rows, self.size, self.name = [tuple(row) for row in rows], size, name

    def read(self, after):
        self.reads.append(after)
        for start in range(after or 0, len(self.rows), self.size):
            part = self.rows[start : start + self.size]
            yield {"ts": [ts for ts, _ in part], "value": [v for _, v in part]}, start + len(part)

    def describe(self):
        return self.name

    def close(self):
        self.closed.append(self.name)


class Trickle(Numbers):
    """The same as a live source, with nothing between two pieces."""

    is_live = True

    def read(self, after):
        for piece in super().read(after):
            yield None
            yield piece


class Silent(Numbers):
    """A live source without rows."""

    is_live = True

    def read(self, after):
        while True:
            yield None
