"""Sources that users write: the protocol `Source`, and the wrapper through which the runtime calls one.

>>> class Evens:
...     def __init__(self, count): self.count = count
...     def read(self, after):
...         for n in range(0 if after is None else after + 1, self.count):
...             yield {"ts": [n], "value": [2 * n]}, n
...     def describe(self): return {"count": self.count}
>>> evens = ConnectedSource(Evens(3), ref="evens.py:Evens", stream="s", program="Sum")
>>> [rows["value"] for rows, _ in evens.pieces(after=codec.encode(0))]
[[2], [4]]
>>> evens.changed(codec.encode({"count": 2}))
"it was described as {'count': 2}, and is now {'count': 3}"

Bookmarks are positions in a stream from which reading can go on. A run resumes from a key below the rows that have been read, so the newest
bookmark is not enough. All recent ones are kept, and fewer of the older ones. So the number of rows that are read again is at most
proportional to how far the run was behind.

>>> from dgs.model.order import BEGIN
>>> marks = Bookmarks()
>>> for row in range(1, 1000):
...     marks.add(Bookmark(row, latest=row, floor=row, position=b"p%d" % row))
>>> len(marks.all) <= MOST, marks.before(OrderKey(990, 0, 0)).position, marks.before(BEGIN).position
(True, b'p989', None)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from dgs import codec
from dgs.errors import ConnectorError
from dgs.errors.hidden_values import masked_data, revealed
from dgs.job.loading import load_connector
from dgs.job.schema import StreamConfig
from dgs.model.order import MIN_TS, OrderKey
from dgs.model.user_code import calling, packed
from dgs.workers.sources.contract import SourceContext

Piece = tuple[Any, Any] | None
"""An item that `read` yields: rows and the position after them, or None."""

ROLE = "source"


class Source(Protocol):
    """A source of rows. A plan file names its class: `source: {custom: {ref: "file.py:Name", args: {...}}}`.

    Every process that reads the stream makes its own object, with `args` by keyword: the planner, which looks at the first rows,
    each host that reads a split of the stream, and `--verify`. So reading must not consume rows. Data that can be read only once,
    such as a queue, must go through an event log first. Making an object opens nothing; `read` does.

    Laws, which `dgs.testing.check_source` checks:

    - repeat: every object gives the same rows in the same order. New rows may come at the end, but never between others.
    - resume: `read(after=position)` gives the rows after that position, all of them and each once, whatever was read since.
    - plain: positions and descriptions are plain data, which the codec carries.
    - order: times never go back, unless the stream has `on_disorder: drop` or `sort_within`.
    - identity: while nothing has changed, `changed` returns None for every earlier result of `describe`, of any object, and
      wherever its reading began: a run may resume more than once.

    `is_live`: rows come by a clock. `read` then never waits: it yields None when it has no more rows for now, and is asked again a little
    later. It ends when no more rows will come.
    """

    is_live: bool = False

    @abstractmethod
    def read(self, after: Any) -> Iterator[Piece]:
        """Yield pairs of rows and the position after them: all rows after the position `after`, or all rows if it is None.

        Rows are a dictionary of columns, an Arrow table, a data frame, an EventBatch, or a list of single events: tuples (tag,
        ts, payload), Events and Heartbeats. A run may resume at any position. Many rows with one position are cheap to read, but
        more rows must be read again. Arrays of a dictionary may be filled again for the next rows; Arrow tables must not.
        """

    @abstractmethod
    def describe(self) -> Any:
        """Return plain data that identifies this source and the part of it that has been read.

        It is saved in every checkpoint. It may grow while rows are read.
        """

    def changed(self, before: Any) -> str | None:
        """Return what has changed since a checkpoint, None if nothing has. After a change the run does not resume.

        `before`: the result of `describe` of some object when the checkpoint was taken. By default it must equal the result of
        `describe` now.
        """
        now = self.describe()
        return None if now == before else f"it was described as {before!r}, and is now {now!r}"

    def close(self) -> None:
        """Close what `read` has opened. It may be called at any time, and twice."""


Packed = tuple[Any, bytes] | None
"""Rows and the position after them, as codec bytes."""


class ConnectedSource:
    """A user's source as the runtime calls it: exceptions and invalid results become our errors.

    Positions and descriptions become codec bytes.
    """

    def __init__(self, source: Any, *, ref: str, stream: str, program: str) -> None:
        self._source, self.ref, self.stream = source, ref, stream
        self._program = program
        with self._calling("is_live"):
            self.is_live = bool(getattr(source, "is_live", False))

    def pieces(self, after: bytes | None) -> Iterator[Packed]:
        """Yield the rows after a position, in pieces, each with the position after it. Raises UserCodeError."""
        count = 0
        position = None if after is None else codec.decode(after)
        with self._calling("read", lambda: f", after {count} pieces"):
            found = self._source.read(position)
            if not hasattr(found, "__iter__"):
                raise self._broken("read", f"returned {type(found).__name__}, which is not iterable")
            for piece in found:
                yield self._packed(piece)
                count += 1

    def describe(self) -> bytes:
        """Return the source's description. Raises UserCodeError."""
        with self._calling("describe"):
            about = masked_data(self._source.describe())
        return packed(about, lambda said: self._broken("describe", f"did not return plain data: {said}"))

    def changed(self, before: bytes) -> str | None:
        """Return what has changed since the description `before`, None if nothing has. Raises UserCodeError."""
        with self._calling("changed"):
            own = getattr(self._source, "changed", None) or partial(Source.changed, self._source)
            problem = own(revealed(codec.decode(before)))
        if problem is None or isinstance(problem, str):
            return problem
        raise self._broken(
            "changed", f"returned {problem!r}; expected None, or a text that says what has changed"
        )

    def close(self) -> None:
        """Close the source. Raises UserCodeError."""
        with self._calling("close"):
            getattr(self._source, "close", lambda: None)()

    def _packed(self, piece: Any) -> Packed:
        if piece is None:
            if self.is_live:
                return None
            problem = "yielded None, which means that there are no rows yet: set `is_live = True` in a source that may say so"
            raise self._broken("read", problem)
        if not isinstance(piece, tuple) or len(piece) != len(("rows", "position")):
            raise self._broken("read", f"yielded {type(piece).__name__}, not a pair of rows and a position")
        rows, position = piece
        if position is None:
            raise self._broken("read", "yielded the position None, which means the beginning")
        problem = "yielded a position that is not plain data"
        return _owned(rows), packed(position, lambda said: self._broken("read", f"{problem}: {said}"))

    def _calling(self, method: str, more: Callable[[], str] = lambda: "") -> AbstractContextManager[None]:
        where = f"for stream {self.stream!r}"
        return calling(f"{self.ref}.{method}", program=self._program, where=lambda: where + more())

    def _broken(self, method: str, problem: str) -> ConnectorError:
        role = f"stream {self.stream!r}: {ROLE}"
        return ConnectorError(role=role, ref=self.ref, problem=f"`{method}` {problem}")


def _owned(rows: Any) -> Any:
    """Return a copy of columns: a source may fill the same arrays again for its next rows while these still wait."""
    if isinstance(rows, dict):
        return {name: _owned(column) for name, column in rows.items()}
    return rows.copy() if isinstance(rows, np.ndarray) else rows


def connected(config: StreamConfig, context: SourceContext) -> ConnectedSource:
    """Return the source named in the section `custom` of a stream. Raises ProgramImportError."""
    details = config.source.details
    made = load_connector(details.ref, details.args, context.base_dir, role=ROLE, protocol=Source)
    return ConnectedSource(made, ref=details.ref, stream=config.id, program=context.program.name)


def is_live(config: StreamConfig, context: SourceContext) -> bool:
    """Return whether a stream has a user's source that is live. Raises ProgramImportError."""
    return config.source.kind == "custom" and connected(config, context).is_live


MOST = 64
"""The number of bookmarks to keep."""


class Bookmark(NamedTuple):
    """A place in a stream: the rows before `row`, up to the time `latest`. `floor`: the least time that may come after it.

    `position`: the source's own name of the place, as codec bytes; None for its beginning.
    """

    row: int = 0
    latest: int = MIN_TS
    floor: int = MIN_TS
    position: bytes | None = None


class Bookmarks:
    """The bookmarks of a stream, by row. Law: a bookmark is kept at least until there are `MOST` / 2 newer ones."""

    def __init__(self, known: Iterable[Any] = ()) -> None:
        self.all = [Bookmark(*mark) for mark in known]

    def add(self, mark: Bookmark) -> None:
        """Append a bookmark, in place of one at the same row. If there are too many, drop the older one whose loss costs least."""
        if self.all and self.all[-1].row == mark.row:
            self.all.pop()
        self.all.append(mark)
        if len(self.all) > MOST:
            rows = [known.row for known in self.all]
            older = range(len(rows) - MOST // 2)
            del self.all[
                min(older, key=lambda i: (rows[i + 1] - rows[i - 1] if i else rows[1]) / (rows[-1] - rows[i]))
            ]

    def before(self, base: OrderKey, *, in_order: bool = True) -> Bookmark:
        """Return the last bookmark with only events below `base` before it, or the beginning of the stream.

        `base`: a key of this stream. `in_order`: events are in the order of their rows, so the row of `base` counts, too.
        """

        def is_below(mark: Bookmark) -> bool:
            return mark.latest < base.ts or (in_order and mark.row <= base.seq)

        return next((mark for mark in reversed(self.all) if is_below(mark)), Bookmark())

    def forget_behind(self, mark: Bookmark) -> None:
        """Forget the bookmarks after `mark`, since reading goes on from there."""
        self.all = [known for known in self.all if known.row <= mark.row]
