"""Truncation of a log, interrupted anywhere: the log can be read from any needed position, and no files are left over in the end."""

import random
import shutil
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dgs.errors import CorruptFileError, ReplayMismatchError
from dgs.workers.event_log import LogReader, LogWriter, row_files, segments
from dgs.workers.event_log.segments import FLOOR
from dgs.workers.event_log.summary import streams
from dgs.workers.event_log.truncation import truncate


class Fallen(BaseException):
    """The process has been killed."""


def written(log, chosen):
    """Write segments of some rows each, some of them in files; return all times in order."""
    writer, times = LogWriter(log, "s", "w"), []
    for batch in range(chosen.randint(2, 9)):
        rows = list(range(len(times), len(times) + chosen.randint(0, 3)))
        times += rows
        if chosen.random() < 0.5:
            writer.append(batch, {"ts": rows} if rows else pa.table({"ts": pa.array([], pa.int64())}))
            continue
        folder = log / "made"
        folder.mkdir()
        pq.write_table(pa.table({"ts": pa.array(rows, pa.int64())}), folder / "part-0.parquet")
        files = row_files.take(log / "s", batch, folder, "ts")
        writer.append_files(
            batch, files, pa.schema({"ts": pa.int64()}), digest="files", repeats=lambda _: True
        )
    if chosen.random() < 0.3:
        writer.close()
    return times


def read_from(log, row):
    reader = LogReader(log, "s")
    reader.seek(row)
    found = [time for _, table in iter(reader.poll, None) for time in table.column("ts").to_pylist()]
    return [time for time in found if time >= row]


def content(log):
    """Return the names of all files but that of the floor, and drafts."""
    names = {str(path.relative_to(log)) for path in log.rglob("*") if path.suffix != ".tmp"}
    return names - {f"s/{FLOOR}"}


def falling_at(number, monkeypatch):
    """Kill the process before its `number`-th operation."""
    numbers = count()

    def falling(does):
        def instead(*arguments, **options):
            if next(numbers) == number:
                raise Fallen
            return does(*arguments, **options)

        return instead

    for owner, name in ((Path, "unlink"), (Path, "rmdir"), (Path, "replace"), (shutil, "rmtree")):
        monkeypatch.setattr(owner, name, falling(getattr(owner, name)))


@pytest.mark.parametrize("seed", range(12))
def test_truncation_that_is_cut_short_leaves_a_log_that_reads_and_is_completed_later(
    tmp_path, monkeypatch, seed
):
    """After the crash, deleted files may be back: only synced changes are sure."""
    chosen = random.Random(seed)
    monkeypatch.setattr(segments, "PER_FOLDER", 3)
    times = written(tmp_path / "whole", chosen)
    below = chosen.randint(0, len(times) + 1)
    shutil.copytree(tmp_path / "whole", tmp_path / "done")
    deleted = truncate(tmp_path / "done" / "s", below)
    for number in count():
        log = tmp_path / f"fallen-{number}"
        shutil.copytree(tmp_path / "whole", log)
        with monkeypatch.context() as patch:
            falling_at(number, patch)
            try:
                truncate(log / "s", below)
                has_fallen = False
            except Fallen:
                has_fallen = True
        for name in sorted(content(tmp_path / "whole") - content(log)) if has_fallen else ():
            if chosen.random() < 0.5 and (tmp_path / "whole" / name).is_file():
                (log / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(tmp_path / "whole" / name, log / name)
        needed = max(below - 1, 0)
        assert read_from(log, needed) == times[needed:]
        begins = next(streams(log)).first
        assert read_from(log, begins) == times[begins:]
        truncate(log / "s", below)
        assert content(log) == content(tmp_path / "done")
        if not has_fallen:
            break
    assert number > 0 or deleted == 0


def test_batch_that_its_writer_may_repeat_stays(tmp_path):
    """Batch 1 has two segments, and Spark may repeat all of it."""
    writer = LogWriter(tmp_path, "s", "w")
    for batch, ts in ((0, 0), (1, 1), ("1.1", 2)):
        writer.append(batch, {"ts": [ts]})
    assert truncate(tmp_path / "s", below=100) == 1
    assert LogWriter(tmp_path, "s", "w").append(1, {"ts": [1]}).first == 1
    with pytest.raises(ReplayMismatchError):
        LogWriter(tmp_path, "s", "w").append(0, {"ts": [0]})


def test_segment_that_is_missing_above_the_floor_is_damage(tmp_path):
    writer = LogWriter(tmp_path, "s", "w")
    for batch in range(6):
        writer.append(batch, {"ts": [batch]})
    truncate(tmp_path / "s", below=3)
    names = list(segments.all_names(tmp_path / "s"))
    assert [name.first for name in names] == [2, 3, 4, 5]
    (tmp_path / "s" / names[1].folder / names[1].text).unlink()
    with pytest.raises(CorruptFileError, match="missing"):
        read_from(tmp_path, 2)
