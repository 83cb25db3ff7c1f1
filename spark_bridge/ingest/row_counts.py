"""The progress of a query: the rows that Spark has read and written as files, and those of them that the log has.

>>> counts = RowCounts()
>>> counts.listener = lambda: print(counts.read, counts.committed)
>>> counts.add(read=3)
3 0
>>> counts.add(committed=2)
3 2
"""

from __future__ import annotations

from collections.abc import Callable


class RowCounts:
    """Counts of one query, since this process began. Only the query's thread adds. `listener` is called after each change."""

    def __init__(self) -> None:
        self.read = 0
        self.committed = 0
        self.listener: Callable[[], None] | None = None

    def add(self, *, read: int = 0, committed: int = 0) -> None:
        """Count rows."""
        self.read += read
        self.committed += committed
        if self.listener is not None:
            self.listener()

    def __reduce__(self) -> tuple[type[RowCounts], tuple[()]]:
        """Travel to a server of Spark Connect without the listener, which has no use there."""
        return RowCounts, ()
