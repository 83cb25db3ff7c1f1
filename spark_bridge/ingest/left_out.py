"""Rows that do not enter the log, by the policies of the plan file: they are counted, and kept as dead letters if it says so.

    LOG/.dead-letters/QUERY/reason=column%20page%20is%20null/batch=7/part-00000-....parquet

The directory of a query is a table with the columns of the rows, the reason, the batch, and the file and row where Spark knows them. A batch
that comes again replaces its letters and its counts.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import pyarrow.parquet as pq

from dgs.errors import MalformedRowError
from dgs.job.run_directory import read_object
from dgs.spark_bridge.ingest.division import Division, Reason
from dgs.workers.event_log import row_files
from dgs.workers.storage.disk import make_directory, refusing, replace_with

LETTERS = ".dead-letters"
COUNTS = "left_out.json"

Policy = Literal["stop", "drop", "dead_letter"]


@dataclass(frozen=True)
class RowsLeftOut:
    """The rows of some streams that are not in their log: how many by reason, and the table of their dead letters, if there is one.

    `rows`: in all, of which `rows_before` were left out before this process began.
    """

    streams: tuple[str, ...]
    rows: int
    rows_before: int
    reasons: Mapping[str, int]
    dead_letters: Path | None

    def __str__(self) -> str:
        """Return a sentence."""
        each = "; ".join(f"{count} ({reason})" for reason, count in sorted(self.reasons.items()))
        kept = f"; dead letters are in {self.dead_letters}" if self.dead_letters is not None else ""
        return f"Spark left out rows of {', '.join(self.streams)}: {each}{kept}"


@dataclass(frozen=True)
class LeftOut:
    """The policies for rows that do not enter the log. `place`: the directory of the query, for the counts; None: nothing is left out."""

    division: Division
    malformed: Policy = "stop"
    late: Mapping[str, Policy] = field(default_factory=dict)
    place: Path | None = None

    @property
    def has_any(self) -> bool:
        """Whether the query has left out rows."""
        return self.place is not None and bool(counts_in(self.place))

    def take(self, folders: Mapping[int, Path], batch: int) -> None:
        """Count the rows of these folders, by number, and keep or drop them. Raises MalformedRowError, UsageError."""
        options = self.division.options
        counts = {}
        for number, reason in enumerate(self.division.reasons, len(options.streams)):
            if number not in folders:
                continue
            policy = self._policy(reason)
            if policy == "stop":
                self._refuse(reason, folders[number])
            files = [path for path in folders[number].iterdir() if path.suffix == ".parquet"]
            counts[str(reason)] = sum(pq.read_metadata(path).num_rows for path in files)
            if policy == "dead_letter":
                self._keep(reason, folders[number], batch)
        if self.place is not None:
            self._count(self.place / COUNTS, counts, batch)

    def _policy(self, reason: Reason) -> Policy:
        if reason.kind == "late":
            return self.late[reason.of]
        return "stop" if reason.kind == "stream" else self.malformed

    def _keep(self, reason: Reason, folder: Path, batch: int) -> None:
        table = letters_of(self.division.options.log, "" if self.place is None else self.place.name)
        place = table / f"reason={quote(str(reason), safe='')}" / f"batch={batch}"
        make_directory(place.parent)
        with refusing(place):
            shutil.rmtree(place, ignore_errors=True)
            folder.rename(place)
            row_files.make_durable(place)

    def _count(self, file: Path, counts: Mapping[str, int], batch: int) -> None:
        """Add the counts of a batch, instead of those it had before if it comes again."""
        found = read_object(file)
        if not counts and found.get("batch", -1) != batch:
            return
        before = found.get("before", {})
        if found.get("batch", batch) != batch:
            before = dict(Counter(before) + Counter(found["now"]))
        replace_with(file, json.dumps({"batch": batch, "now": counts, "before": before}).encode())

    def _refuse(self, reason: Reason, folder: Path) -> None:
        options = self.division.options
        if reason.kind == "stream":
            with pq.ParquetFile(next(folder.glob("*.parquet"))) as file:
                [row] = next(file.iter_batches(1, columns=[reason.of])).to_pylist()
            options.check_stream(str(row[reason.of]))
        raise MalformedRowError(
            stream=",".join(options.streams),
            row="?",
            problem=f"column {reason.of!r} is null",
            column=reason.of,
        )


def letters_of(log: Path, query: str) -> Path:
    """Return the directory of the dead letters of a query."""
    return log / LETTERS / query


def counts_in(place: Path) -> Counter[str]:
    """Return the number of rows that a query has left out, by reason."""
    found = read_object(place / COUNTS)
    return Counter(found.get("before", {})) + Counter(found.get("now", {}))
