"""Succession: a query whose Spark checkpoint directory was lost begins from its first row again, and goes on where the log ends.

The new query may cut other micro-batches. So its rows are held back until they are as many as those of the log. Then they must contain each
row of the log as often as the log does, and the others are the next batch. Spark compares; no row enters this process.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dgs.errors import ReplayMismatchError, UnrepeatableLogError
from dgs.job.run_directory import read_object
from dgs.spark_bridge.data_source.log_options import LogOptions, quoted
from dgs.spark_bridge.data_source.query_owner import Query, standing
from dgs.spark_bridge.data_source.staging import Staging
from dgs.spark_bridge.ingest.division import PART, Division
from dgs.spark_bridge.ingest.queries import is_of_rows, literal
from dgs.workers.event_log import owner, summary
from dgs.workers.event_log.segments import Segment
from dgs.workers.storage.disk import make_directory, replace_with

NOTE = "succession.json"


@dataclass(frozen=True)
class Succession:
    """The succession of a query to a log. `place`: the directory of the query, beside its checkpoint directory."""

    division: Division
    query: Query
    place: Path

    @property
    def options(self) -> LogOptions:
        """The log that takes the rows."""
        return self.division.options

    def number(self, batch: int) -> int:
        """Return the number in the log of a micro-batch of the query."""
        note = self._note
        return batch + int(note["offset"]) if note else batch

    def concerns(self, batch: int) -> bool:
        """Return whether the log may have rows of a batch under other numbers. Raises OwnedLogError if the log is another query's."""
        roles = {standing(self.options.log / stream, self.query) for stream in self.options.streams}
        if "successor" in roles or self._note.get("batch") == batch:
            return True
        shutil.rmtree(self._held, ignore_errors=True)
        return False

    def beyond(self, rows: Any, batch: int) -> Any:
        """Return the rows that come after those of the log, and make the log the query's own; None if there are none yet.

        Raises ReplayMismatchError if rows of the log do not come again.
        """
        if any(not is_of_rows(name) for name in rows.columns):  # rows that are not events are then left out
            shown = [quoted(name) for name in rows.columns if is_of_rows(name)]
            rows = (
                self.division.numbered(rows, {}).where(f"{PART} < {len(self.options.streams)}").select(*shown)
            )
        make_directory(self._held)
        rows.write.mode("overwrite").parquet(f"file://{self._held}/{batch}")
        reader = rows.sparkSession.read.schema(rows.schema)
        held = reader.parquet(*map(literal, sorted(self._held.iterdir())))
        logged = list(self._logged(batch))
        count = sum(segment.rows for _, segment in logged)
        events = (
            replace(self.division, casts=())
            .numbered(held, {})
            .where(f"{PART} < {len(self.options.streams)}")
            .count()
        )
        if events < count:
            return None
        files = [literal(path / file.path) for path, segment in logged for file in segment.files]
        rest = held.exceptAll(reader.parquet(*files)) if files else held
        if rest.count() + count != held.count():
            raise self._mismatch(batch, f"of the {count} rows of the log some do not come again")
        self._take_over(batch, logged)
        return rest

    @property
    def _note(self) -> dict[str, Any]:
        note = read_object(self.place / NOTE)
        return note if note.get("query") == self.query.id else {}

    @property
    def _held(self) -> Path:
        return Staging(self.options.log, f"{self.query.id} repeats").directory

    def _logged(self, batch: int) -> Iterator[tuple[Path, Segment]]:
        """Yield the segments of the previous query, each with its directory. Raises UnrepeatableLogError."""
        end = self.number(batch) if self._note else None
        for stream in self.options.streams:
            row = 0
            for segment in summary.segments(self.options.log, stream):
                if end is not None and isinstance(segment.batch, int) and segment.batch >= end:
                    break
                if segment.first != row or (segment.rows and not segment.files):
                    problem = (
                        "its first rows were deleted"
                        if segment.first > row == 0
                        else "an earlier version wrote it"
                    )
                    raise UnrepeatableLogError(path=self.options.log, stream=stream, problem=problem)
                row = segment.stop
                yield self.options.log / stream, segment

    def _take_over(self, batch: int, logged: list[tuple[Path, Segment]]) -> None:
        last = max((segment.batch for _, segment in logged if isinstance(segment.batch, int)), default=-1)
        if not self._note:
            note = {"query": self.query.id, "batch": batch, "offset": last + 1 - batch}
            replace_with(self.place / NOTE, json.dumps(note).encode())
        for stream in self.options.streams:
            owner.claim(self.options.log / stream, self.query.writer, takeover=True)

    def _mismatch(self, batch: int, problem: str) -> ReplayMismatchError:
        return ReplayMismatchError(
            path=self.options.log, stream=",".join(self.options.streams), batch=batch, problem=problem
        )
