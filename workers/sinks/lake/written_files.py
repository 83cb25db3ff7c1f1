"""The list `.dgs-written` in the directory of a table of a lake: each file that a run has written, with its size and digest.

The formats record only the sizes of data files, and nothing of the files of their own logs. A resumed run looks here for changed files.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> _ = (folder / "part-1.parquet").write_text("rows")
>>> note_written(folder, {folder / "part-1.parquet": ""}, run="0123", epoch=7)
>>> last_listed(folder, "0123"), changed(folder, "0123")
(7, None)
>>> _ = (folder / "part-1.parquet").write_text("rots")
>>> changed(folder, "0123")
'part-1.parquet is damaged'
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dgs.job import private_files
from dgs.workers.sinks.files.owned import add_lines, digest_of
from dgs.workers.storage.disk import refusing

TYPES = {"file": str, "size": int, "digest": str, "run": str, "epoch": int}
"""The fields of a line."""

LIST = ".dgs-written"
"""Not the list of file sinks, which may remove the files in theirs."""


def note_written(directory: Path, files: Mapping[Path, str], *, run: str, epoch: int) -> None:
    """Add files of an epoch to the list of a directory, durably. Each has its digest, "" if it is not known.

    Raises OutputUnwritableError.
    """
    with refusing(directory):
        lines = [
            {
                "file": os.path.relpath(path, directory),
                "size": path.stat().st_size,
                "digest": digest or digest_of(path),
                "run": run,
                "epoch": epoch,
            }
            for path, digest in files.items()
        ]
    add_lines(directory, [f"{json.dumps(line)}\n" for line in lines], of=LIST)


def last_listed(directory: Path, run: str) -> int:
    """Return the last epoch of a run in the list, 0 without one."""
    return max((line["epoch"] for line in _lines(directory, run)), default=0)


def changed(directory: Path, run: str) -> str | None:
    """Return what is wrong with an existing file of a run, None if all are unchanged."""
    for line in _lines(directory, run):
        path = directory / line["file"]
        with refusing(path):
            if path.exists() and (path.stat().st_size, digest_of(path)) != (line["size"], line["digest"]):
                return f"{path.name} is damaged"
    return None


def _lines(directory: Path, run: str) -> Iterator[dict[str, Any]]:
    try:
        text = private_files.read_text(directory / LIST, errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return
    for line in text.splitlines():
        try:
            about = json.loads(line)
        except ValueError:  # torn by a crash; the file is listed again
            continue
        is_whole = isinstance(about, dict) and all(
            type(about.get(name)) is one for name, one in TYPES.items()
        )
        if is_whole and about["run"] == run:
            yield about
