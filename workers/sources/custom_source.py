"""Sources that users write: what one must do, and what stands between it and the runtime.

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
"it was described as {'count': 2} and is {'count': 3}"
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

from dgs import codec
from dgs.errors import ConnectorError
from dgs.job.loading import load_connector
from dgs.job.schema import StreamConfig
from dgs.model.user_code import calling, packed
from dgs.workers.sources.context import SourceContext

Piece = tuple[Any, Any] | None
"""What `read` yields: rows and the position behind them, or None."""

ROLE = "source"


class Source(Protocol):
    """A source of rows. A plan file names its class: `source: {custom: {ref: "file.py:Name", args: {...}}}`.

    Every process that reads the stream makes an object of its own, with `args` by keyword: the planner, which looks at the first
    rows, each host that reads a split of the stream, and `--verify`. So reading takes nothing away: what is read once only, such as
    a queue, goes through an event log first. Making an object opens nothing; `read` does.

    Laws, which `dgs.testing.check_source` looks after:

    - repeat: every object gives the same rows in the same order. Rows may come at the end of what there is, never between.
    - resume: `read(after=position)` gives the rows behind that position: none left out, none again, whatever has been read since.
    - plain: positions and descriptions are plain data: what the codec carries.
    - order: times never go back, unless the stream has `on_disorder: drop` or `sort_within`.
    - identity: while nothing has changed, `changed` finds nothing in what any object has said in `describe`, which tells what has
      been read wherever reading began: a run may go on more than once.

    `is_live`: rows come by a clock. `read` then yields None once all that is there has been read, and is asked again a little
    later; it never waits. It ends when nothing will come any more.
    """

    is_live: bool = False

    @abstractmethod
    def read(self, after: Any) -> Iterator[Piece]:
        """Yield rows and the position behind them, as pairs: all that come after the position `after`, or, if it is None, all.

        Rows are a dictionary of columns, an Arrow table, a data frame, an EventBatch, or a list of single events: tuples (tag,
        ts, payload), Events and Heartbeats. A run may go on behind any position, so many rows with one position are cheap to
        read and dear to go on from.
        """

    @abstractmethod
    def describe(self) -> Any:
        """Return what tells this source from others, and what has been read of it from what has not been: plain data.

        It goes into every checkpoint. It may grow while rows are read.
        """

    def changed(self, before: Any) -> str | None:
        """Say what is not any more as it was, if anything is: the run is then not gone on with. None if nothing is.

        `before`: what `describe` of some object returned when a checkpoint was taken. Unless it is overridden, it must be what
        `describe` returns now.
        """
        now = self.describe()
        return None if now == before else f"it was described as {before!r} and is {now!r}"

    def close(self) -> None:
        """Release what `read` has opened. May be called at any time, also twice."""


Packed = tuple[Any, bytes] | None
"""Rows and the position behind them, as codec bytes."""


class ConnectedSource:
    """A user's source as the runtime calls it: what it raises, or returns and must not, becomes one of our errors.

    Positions and descriptions go on as codec bytes.
    """

    def __init__(self, source: Any, *, ref: str, stream: str, program: str) -> None:
        self._source, self.ref, self.stream = source, ref, stream
        self._program = program
        self.is_live = bool(getattr(source, "is_live", False))

    def pieces(self, after: bytes | None) -> Iterator[Packed]:
        """Yield what the source reads behind a position: rows, and the position behind them. Raises UserCodeError."""
        count = 0
        position = None if after is None else codec.decode(after)
        with self._calling("read", lambda: f", after {count} pieces"):
            found = self._source.read(position)
            if not hasattr(found, "__iter__"):
                raise self._broken(
                    "read", f"returned {type(found).__name__}, which is not to be iterated over"
                )
            for piece in found:
                yield self._packed(piece)
                count += 1

    def describe(self) -> bytes:
        """Return what the source says it is. Raises UserCodeError."""
        with self._calling("describe"):
            about = self._source.describe()
        return packed(about, lambda said: self._broken("describe", f"returned no plain data: {said}"))

    def changed(self, before: bytes) -> str | None:
        """Return what is different from `before`, a description; None if nothing is. Raises UserCodeError."""
        with self._calling("changed"):
            own = getattr(self._source, "changed", None) or partial(Source.changed, self._source)
            problem = own(codec.decode(before))
        if problem is None or isinstance(problem, str):
            return problem
        raise self._broken(
            "changed", f"returned {problem!r}, neither a text that says what has changed nor None"
        )

    def close(self) -> None:
        """Release what it has opened. Raises UserCodeError."""
        with self._calling("close"):
            getattr(self._source, "close", lambda: None)()

    def _packed(self, piece: Any) -> Packed:
        if piece is None:
            if self.is_live:
                return None
            problem = (
                "yielded None, which says that nothing is there yet: where that may be, `is_live` is True"
            )
            raise self._broken("read", problem)
        if not isinstance(piece, tuple) or len(piece) != len(("rows", "position")):
            raise self._broken("read", f"yielded {type(piece).__name__}, not a pair of rows and a position")
        rows, position = piece
        if position is None:
            raise self._broken("read", "yielded the position None, which stands for the beginning")
        problem = "yielded a position that is no plain data"
        return rows, packed(position, lambda said: self._broken("read", f"{problem}: {said}"))

    def _calling(self, method: str, more: Callable[[], str] = lambda: "") -> AbstractContextManager[None]:
        where = f"for stream {self.stream!r}"
        return calling(f"{self.ref}.{method}", program=self._program, where=lambda: where + more())

    def _broken(self, method: str, problem: str) -> ConnectorError:
        role = f"stream {self.stream!r}: {ROLE}"
        return ConnectorError(role=role, ref=self.ref, problem=f"`{method}` {problem}")


def connected(config: StreamConfig, context: SourceContext) -> ConnectedSource:
    """Return the source that the section `custom` of a stream names. Raises ProgramImportError."""
    details = config.source.details
    made = load_connector(
        details.ref, details.args, context.base_dir, role=ROLE, needs=Source.__abstractmethods__
    )
    return ConnectedSource(made, ref=details.ref, stream=config.id, program=context.program.name)


def is_live(config: StreamConfig, context: SourceContext) -> bool:
    """Return whether a stream is read from a user's source that is live. Raises ProgramImportError."""
    return config.source.kind == "custom" and connected(config, context).is_live
