"""One Spark query as the source of streams: from its start to the end marks, or its error, in the log."""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dgs.errors import PlanFileError, UsageError
from dgs.errors.hidden_values import masked_data
from dgs.job import private_files
from dgs.job.run_directory import read_object
from dgs.spark_bridge.data_source.log_options import LogOptions
from dgs.spark_bridge.data_source.log_writer import BATCH_WRITE
from dgs.spark_bridge.data_source.query_owner import PREFIX
from dgs.spark_bridge.ingest import succession
from dgs.spark_bridge.ingest.division import Division
from dgs.spark_bridge.ingest.failures import explained
from dgs.spark_bridge.ingest.left_out import LeftOut, RowsLeftOut, counts_in, letters_of
from dgs.spark_bridge.ingest.micro_batches import MicroBatches, RowCounts
from dgs.spark_bridge.ingest.queries import Query, frame, resolved, shaped, whole
from dgs.spark_bridge.session.any_thread import activate
from dgs.spark_bridge.session.running_jobs import conf
from dgs.spark_bridge.session.settings_advice import unknown_options
from dgs.workers.event_log import LogWriter, close_stream, failure, owner, summary
from dgs.workers.event_log.segments import is_closed, newest
from dgs.workers.storage.disk import make_directory, replace_with

PLACE = ".spark"
"""The directory in a log with a directory per query for Spark's own checkpoints."""

DESCRIPTION = "query.json"
"""The file in a query's directory that describes the query."""

CHANGEABLE = ("where", "select")
"""The parts of a query that may change while its log grows."""

LOOKS_EVERY = 0.05
"""Seconds between two checks whether a query has ended."""


class Feed:
    """A query and the log it writes. `base_dir`: the base of relative paths. `notify` gets a sentence for each option without effect."""

    def __init__(
        self, query: Query, log: Path, *, base_dir: Path, notify: Callable[[str], None] = lambda _: None
    ) -> None:
        self.query = query
        self.log = log
        self._base_dir = base_dir
        self._notify = notify
        self.counts = RowCounts()
        self._place = log / PLACE / query.name
        self._left_out_before = counts_in(self._place).total()

    @property
    def checkpoint(self) -> Path:
        """Spark's checkpoint directory, from which it resumes the query."""
        return self._place / "checkpoint"

    def begin(self) -> bool:
        """Make the log ready for its readers. Return whether the query still has to run: False if it ended in an earlier run.

        Raises PlanFileError if the log has rows of another query.
        """
        make_directory(self._place)
        self._check_description()
        for stream in self.query.stream_ids:
            make_directory(self.log / stream)
            failure.forget(self.log / stream)
        failure.forget(self._place)
        closed = {found.stream for found in summary.streams(self.log) if found.is_closed}
        if not closed & set(self.query.stream_ids):
            return True
        self._close(f"{PREFIX}{BATCH_WRITE}-{self.query.name}")  # a crash may have left some streams unclosed
        return False

    def _check_description(self) -> None:
        told, file = self.query.description, self._place / DESCRIPTION
        now = masked_data(told)
        if (path := self.query.source.path) is not None:
            told["place"] = now["place"] = resolved(
                path, self._base_dir
            )  # Spark knows files by their whole paths
        if file.exists():
            before = json.loads(private_files.read_text(file))
            if "place" not in before or any(is_closed(self.log / stream) for stream in before["streams"]):
                before["place"] = told.get("place")
            differing = [part for part in now if before.get(part) not in (now[part], told[part])]
            if _is_widened(before.get("columns", {}), told["columns"]):
                differing.remove("columns")
            earlier = before.get("earlier", [])
            if differing and any(owner.owner(self.log / stream) for stream in before["streams"]):
                earlier = [*earlier, self._changed(before, differing)]
            elif (
                differing
            ):  # the earlier query wrote nothing and was corrected: Spark's plan of it is useless
                shutil.rmtree(self.checkpoint, ignore_errors=True)
            now |= {"earlier": earlier} if earlier else {}
        replace_with(file, json.dumps(now).encode())

    def _changed(self, before: Mapping[str, Any], differing: Sequence[str]) -> dict[str, Any]:
        """Return the record of a change that applies from the next micro-batch on. Raises PlanFileError for any other."""
        directories = [self.log / stream for stream in before["streams"]]
        is_open = self.query.is_stream and not any(is_closed(directory) for directory in directories)
        fixed = [part for part in differing if part not in CHANGEABLE or not is_open]
        if fixed == ["place"]:
            problem = f"the files of the event log {self.log} were {before['place']}, and `path:` is now {self._base_dir / str(self.query.source.path)}: move them back, or name another `log:`"
            raise PlanFileError(where=f"stream {self.query.stream_ids[0]!r}", problem=problem)
        if fixed:
            problem = (
                f"`{fixed[0]}:` has changed since the event log {self.log} was begun, and its rows are "
                "not read again: name another `log:`, or remove that one"
            )
            raise PlanFileError(where=f"stream {self.query.stream_ids[0]!r}", problem=problem)
        names = " and ".join(f"`{part}:`" for part in differing)
        self._notify(
            f"{names} changed: rows of later micro-batches are read so, and those in {self.log} stay as they are"
        )
        pending, number = self._pending(), read_object(self._place / succession.NOTE).get("offset", 0)
        begun = [last for directory in directories if (last := newest(directory)) is not None]
        is_begun = pending is not None and any(
            (last.numbered_so_far or 0) >= number + pending
            for last in begun
            if last.numbered_so_far is not None
        )
        return {"through": pending if is_begun else None, **{part: before[part] for part in CHANGEABLE}}

    def _pending(self) -> int | None:
        """Return the micro-batch that Spark will repeat; None without one."""
        begun, done = (
            [int(path.name) for path in (self.checkpoint / kind).glob("*") if path.name.isdigit()]
            for kind in ("offsets", "commits")
        )
        return max(begun) if begun and max(begun) > max(done, default=-1) else None

    def run(self, spark: Any, stop: threading.Event) -> None:
        """Run the query to its end, or until `stop`. Raises nothing: errors go to the log."""
        try:
            activate(spark)
            writer = self._write(spark, stop)
            if writer is not None:
                self._close(writer)
            if self.left_out.rows:
                self._notify(str(self.left_out))
        except Exception as error:  # noqa: BLE001 - the readers must see any error
            if not stop.is_set():
                self.fail(error, spark)

    def fail(self, error: BaseException, spark: Any = None) -> None:
        """Write an error, as one of dgs, to the streams' directories, where their readers find it."""
        for stream in self.query.stream_ids:
            told = failure.found(self._place) or error
            failure.leave(
                self.log / stream, explained(told, stream, self.query, spark=spark, base_dir=self._base_dir)
            )

    def _write(self, spark: Any, stop: threading.Event) -> str | None:
        """Write all rows; return the writer's name, None if it was stopped. Raises errors of Spark and of dgs."""
        source = self.query.source
        for said in unknown_options(source):
            self._notify(said)
        if source.sql is not None or not self.query.is_stream:
            rows = frame(spark, self.query, base_dir=self._base_dir)
            put = self._batches(self.query, rows, None)
            put(rows, 0)
            return f"{PREFIX}{put.options.query}"
        rows, put_batch = self._streaming(spark)
        put_here = _Remembering(put_batch)
        is_here = getattr(spark, "_jsparkSession", None) is not None  # Spark Connect calls it on the server
        # No URI escapes: Hadoop takes the path literally, per cent signs included.
        writer = rows.writeStream.foreachBatch(put_here if is_here else put_batch).option(
            "checkpointLocation", f"file://{self.checkpoint}"
        )
        if self.query.is_bounded:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{int(source.trigger) // 10**6} milliseconds")
        # a query keeps the settings with which it starts
        with conf(spark, _plain_files(spark) if is_here else {}):
            started = writer.start()
        with _stopped_at_the_end(started) as running:
            while running.isActive:
                if stop.wait(LOOKS_EVERY):
                    return None
            if (error := running.exception()) is not None:
                raise put_here.error or error
            if not self.query.is_bounded and not stop.is_set():
                raise UsageError(message="something else stopped it: go on with `dgs resume`")
            return f"{PREFIX}{running.id}"

    def _batches(self, query: Query, rows: Any, checkpoint: Path | None) -> MicroBatches:
        """Return the function that puts micro-batches of these rows into the log. Raises UsageError."""
        options = LogOptions.parsed({**query.options(self.log), "errors": str(self._place)})
        options.checked(dict(rows.dtypes))
        division = Division(options, tuple(query.selected[1]), tuple(query.late), query.required)
        left_out = LeftOut(division, query.malformed, query.late, self._place)
        return MicroBatches(left_out, checkpoint, self.counts)

    def _streaming(self, spark: Any) -> tuple[Any, Callable[[Any, int], None]]:
        """Return the streaming rows and the function for their micro-batches.

        A batch that is already partly in the log is read again as it was then, whatever has changed since.
        """
        rows, now = whole(spark, self.query, base_dir=self._base_dir), self.query
        put_now = self._batches(now, shaped(rows, now), self.checkpoint)
        earlier = read_object(self._place / DESCRIPTION).get("earlier", [])
        through = earlier[-1]["through"] if earlier else None
        if through is None or through != self._pending():
            return shaped(rows, now), put_now
        source = now.source.model_copy(update={part: earlier[-1][part] for part in CHANGEABLE})
        before = replace(now, source=source)
        put_before = self._batches(before, shaped(rows, before), self.checkpoint)

        def put(found: Any, batch: int) -> None:
            if batch <= through:
                put_before(shaped(found, before, knows_files=False), batch)
            else:
                put_now(shaped(found, now, knows_files=False), batch)

        return rows, put

    @property
    def left_out(self) -> RowsLeftOut:
        """The rows that are not in the log."""
        counts, letters = counts_in(self._place), letters_of(self.log, self.query.name)
        return RowsLeftOut(
            self.query.stream_ids,
            counts.total(),
            self._left_out_before,
            counts,
            letters if letters.exists() else None,
        )

    def _close(self, writer: str) -> None:
        """Mark the end of all streams; `writer` closes those that have no owner."""
        for stream in self.query.stream_ids:
            if owner.owner(self.log / stream) is None:
                LogWriter(self.log, stream, writer).close()
            else:
                close_stream(self.log, stream)


def _is_widened(before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Return whether columns were added and none changed. A batch that comes again is read without the new columns."""
    return 0 < len(before) < len(now) and before.items() <= now.items()


class _Remembering:
    """A function for `foreachBatch` that keeps the error it raised, since Spark keeps only its text."""

    def __init__(self, put: Callable[[Any, int], None]) -> None:
        self.put = put
        self.error: Exception | None = None

    def __call__(self, rows: Any, batch: int) -> None:
        try:
            self.put(rows, batch)
        except Exception as error:
            self.error = error
            raise


def _plain_files(spark: Any) -> dict[str, str]:
    """Return the setting with which Spark's checkpoints have no checksum files: Hadoop runs `chmod` for each file."""
    is_there = spark._jvm.org.apache.spark.util.Utils.classIsLoadable  # noqa: SLF001 - PySpark has no public way to Java
    places = ("streaming.checkpointing", "streaming")  # the second setting is for Spark up to 4.0
    names = (
        f"org.apache.spark.sql.execution.{place}.FileSystemBasedCheckpointFileManager" for place in places
    )
    found = next(filter(is_there, names), None)
    return {} if found is None else {"spark.sql.streaming.checkpointFileManagerClass": found}


@contextlib.contextmanager
def _stopped_at_the_end(query: Any) -> Iterator[Any]:
    try:
        yield query
    finally:
        with contextlib.suppress(Exception):  # Spark may have ended
            query.stop()
