"""Truncation: deletes the segments of a stream that no checkpoint needs, the oldest first, with the files of their rows.

First a durable note says which segment is the first that counts (`segments.floor`). So the log stays readable after a crash at any moment,
even if a crash of the machine brings deleted files back. The next truncation deletes what is left.

>>> import tempfile
>>> import pyarrow as pa
>>> from dgs.workers.event_log.writer import LogWriter
>>> log = Path(tempfile.mkdtemp())
>>> writer = LogWriter(log, "clicks", "query-1")
>>> for batch in range(4):
...     _ = writer.append(batch, {"ts": [batch, batch]})
>>> truncate(log / "clicks", below=5), [name.first for name in all_names(log / "clicks")]
(2, [4, 6])
"""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from dgs.workers.event_log import row_files
from dgs.workers.event_log.segments import (
    FLOOR,
    SegmentName,
    all_names,
    batch_hash,
    floor,
    folder,
    folders,
    names_in,
    newest,
)
from dgs.workers.storage import sealed_file
from dgs.workers.storage.disk import refusing, replace_with, sync_directory


def truncate(directory: Path, below: int) -> int:
    """Delete segments whose rows all come before row `below - 1`; return how many. Raises OutputUnwritableError, CorruptFileError.

    The newest segment stays, and so does the newest numbered batch, which its writer may repeat.
    """
    _finish(directory)  # what an earlier crash left
    names = list(all_names(directory))
    kept = _first_kept(directory, names, below)
    if kept == 0:
        return 0
    note = [names[kept].number, [name.batch for name in names[:kept]]]
    replace_with(directory / FLOOR, sealed_file.pack(sealed_file.EVENTS, FLOOR, note))
    _finish(directory)
    return kept


def _first_kept(directory: Path, names: list[SegmentName], below: int) -> int:
    last = newest(directory)
    repeatable = None if last is None or last.numbered_so_far is None else batch_hash(last.numbered_so_far)
    for index, (name, following) in enumerate(pairwise(names)):
        if following.first >= below or name.batch == repeatable:
            return index
    return max(len(names) - 1, 0)


def _finish(directory: Path) -> None:
    """Delete the segments that no longer count, and the files of their batches."""
    first, batches = floor(directory)
    if not first:
        return
    with refusing(directory):
        for name in folders(directory):
            if name > folder(first):
                break
            for segment in names_in(directory, name):
                if segment.number < first:
                    (directory / name / segment.text).unlink(missing_ok=True)
            if name < folder(first):
                with suppress(OSError):  # a writer that was killed may have left a file
                    (directory / name).rmdir()
        row_files.forget_all(directory, batches - {name.batch for name in all_names(directory)})
        sync_directory(directory)
