"""Input files: a path or a glob, relative to the plan file. Files that end in `.gz` are decompressed.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> for name in ("b.csv", "a.csv"):
...     _ = (folder / name).write_text("ts")
>>> [path.name for path in input_files("*.csv", base_dir=folder, stream="clicks")]
['a.csv', 'b.csv']
"""

from __future__ import annotations

import glob
import gzip
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from dgs.errors import MissingInputError


def input_files(path: str, *, base_dir: Path, stream: str) -> tuple[Path, ...]:
    """Return the files that `path` names, in the order of their names. Row numbers go on from file to file.

    Raises MissingInputError if there are none.
    """
    whole = base_dir / path
    if whole.is_file():
        return (whole,)
    names = sorted(glob.glob(str(whole), recursive=True))  # noqa: PTH207 - Path.glob refuses absolute patterns
    found = tuple(Path(name) for name in names if Path(name).is_file())
    if not found:
        raise MissingInputError(stream=stream, path=whole)
    return found


def open_text(path: Path) -> IO[str]:
    """Open a text file, compressed or not. A byte order mark is skipped."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def open_arrow(path: Path) -> Any:
    """Open a file as an Arrow input stream, decompressed by its ending."""
    return pa.input_stream(str(path), compression="detect")
