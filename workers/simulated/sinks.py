"""The sinks of a simulated run: staged files that get their final names, and tables that remember marks and the run that writes them.

>>> from dgs.model.tags import Tag
>>> sinks = SimulatedSinks()
>>> outputs = OutputBatch.of("s", rank=0, tags=[Tag("a")], ts=[7], seq=[0], index=[0], values=["one"])
>>> sinks.write("1-0", outputs)
>>> sinks.publish([StagedFile("1-0", "1-0", 0, "", 1)])
>>> sinks.accept(0, outputs, splits=1)
>>> [batch.to_list() for batch in sinks.visible]
[['one'], ['one']]
>>> sinks.enter("table", "a run", generation=1, continues=True)
Traceback (most recent call last):
dgs.errors.SinkChangedError: table: the table 'outputs' does not hold the outputs that this run has committed: ...
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dgs.errors import FencedError
from dgs.model.outputs import OutputBatch
from dgs.workers.recovery.checkpoint import StagedFile, StagedOutput
from dgs.workers.simulated.sources import BLOCK
from dgs.workers.sinks.marks import Marks
from dgs.workers.sinks.sqlite_tables import Writer, check, connected, enter

TABLE = "outputs"


def _database() -> sqlite3.Connection:
    return connected(Path(":memory:"))


@dataclass
class Table:
    """A table of outputs with its marks. `identity`: a database that names the writer of the table, with a row for each of its batches."""

    outputs: list[OutputBatch] = field(default_factory=list)
    marks: Marks = field(default_factory=lambda: Marks(BLOCK))
    identity: sqlite3.Connection = field(default_factory=_database)

    def enter(self, name: str, writer: Writer) -> None:
        """Note a new writer, and forget the rows of another run. Raises SinkChangedError if the writer's own rows are not there."""
        enter(self.identity, TABLE, writer, path=Path(name))
        if not self.identity.execute(f"SELECT count(*) FROM {TABLE}").fetchone()[0]:  # noqa: S608 - our own name
            self.outputs, self.marks = [], Marks(BLOCK)


@dataclass
class Place:
    """A place for outputs. `files`: those published."""

    files: list[OutputBatch] = field(default_factory=list)
    table: Table = field(default_factory=Table)


class SimulatedSinks:
    """The sinks, which outlive every process. Outputs that are accepted or published are never taken back."""

    def __init__(self) -> None:
        self._places = {"": Place()}
        self._place = self._places[""]
        self._staged: dict[str, tuple[Place, list[OutputBatch]]] = {}
        self._published: set[str] = set()
        self._generation = 0
        self._writers: dict[int, tuple[Table, Writer]] = {}
        self._lost: tuple[Place, Table] | None = None

    @property
    def visible(self) -> list[OutputBatch]:
        """The outputs in the place that the run writes now: of files, and of the table, each in order."""
        return [*self._place.files, *self._place.table.outputs]

    def begin(self, generation: int) -> None:
        """Fence older generations, and discard their outputs that are staged but not committed."""
        self._generation = generation
        self._staged.clear()

    def enter(self, name: str, run: str, *, generation: int, continues: bool) -> None:
        """Let a generation of a run write to a place. `continues`: it has committed outputs. Raises SinkChangedError."""
        place = self._places.setdefault(name, Place())
        writer = Writer(run, generation, continues=continues)
        place.table.enter(name, writer)
        self._place = place
        self._writers[generation] = (place.table, writer)

    def lose_table(self) -> None:
        """Put an empty table in place of the current one."""
        self._lost = self._place, self._place.table
        self._place.table = Table()

    def restore_table(self) -> None:
        """Put the table that was lost back in its place."""
        if self._lost is not None:
            place, table = self._lost
            place.table, self._lost = table, None

    def write(self, path: str, batch: OutputBatch) -> None:
        """Append to a staged file."""
        self._staged.setdefault(path, (self._place, []))[1].append(batch)

    def stage(self, path: str) -> tuple[StagedFile, ...]:
        """Return the files to commit: the file of this path, if there is one."""
        return (StagedFile(path, path, 0, "", 0),) if path in self._staged else ()

    def publish(self, files: Sequence[StagedOutput]) -> None:
        """Give staged files their final names, so that readers see them. A second call does nothing."""
        for file in files:
            if file.final not in self._published:
                place, outputs = self._staged.pop(file.final)
                place.files += outputs
                self._published.add(file.final)

    def accept(self, generation: int, batch: OutputBatch, splits: int) -> None:
        """Let the table take outputs. Those at or below its marks are repeats (R8). Raises FencedError."""
        table = self._place.table
        if self._writers:
            table, writer = self._writers[generation]
            check(table.identity, TABLE, writer, path=Path("the sink"))
        elif generation != self._generation:
            raise FencedError(path="the sink", generation=generation, newest=self._generation)
        new = table.marks.accept(batch, splits)
        if len(new):
            table.outputs.append(new)
            if self._writers:
                row = f"INSERT INTO {TABLE} VALUES (0, ?, ?, 0, '', NULL, NULL)"  # noqa: S608 - our own name
                table.identity.execute(row, (new.stream, len(table.outputs)))
