"""The files that Spark has found for a micro-batch, by Spark's checkpoint directory.

Spark notes the files first and looks for them again to read them. It passes over those that are gone by then, as if they had no rows.

>>> gone(Path("/nowhere"), 0)
[]
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from dgs.job import private_files

SOURCE = Path("sources", "0")
"""The directory in a checkpoint directory with Spark's lists of files; a query of a plan file has one source."""


def gone(checkpoint: Path, batch: int) -> list[Path]:
    """Return the files of a micro-batch that are gone. Only files of this file system are looked for."""
    last = _offset(checkpoint, batch)
    if last is None:
        return []
    before = _offset(checkpoint, batch - 1)
    lists = range(-1 if before is None else before, last)
    return [
        path for number in lists for path in _listed(checkpoint / SOURCE, number + 1) if not path.exists()
    ]


def _offset(checkpoint: Path, batch: int) -> int | None:
    """Return the number of the last list of files that belongs to a micro-batch or an earlier one; None without such lists."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        return int(
            json.loads(private_files.read_text(checkpoint / "offsets" / str(batch)).splitlines()[2])[
                "logOffset"
            ]
        )
    return None


def _listed(directory: Path, number: int) -> Iterator[Path]:
    for name in (str(number), f"{number}.compact"):  # a compact list repeats those before
        with suppress(OSError):
            for line in private_files.read_text(directory / name).splitlines()[1:]:
                entry: Any = json.loads(line)
                place = urlsplit(entry["path"])
                if entry["batchId"] == number and place.scheme == "file":
                    yield Path(unquote(place.path))
            return
