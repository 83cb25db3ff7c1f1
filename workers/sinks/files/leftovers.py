"""Files without final names that runs with `mode: append` have left: whose they are, and which of them no run needs any more.

Such runs share a directory, and each cleans up only behind itself. One that is killed and never resumed leaves its `.partial` files. So
every run notes in the list of the directory where its checkpoints are. A later run, which has the lock of the directory, asks
whether the run of a file still needs it. Files of runs that the list does not know stay.

>>> import tempfile
>>> place = Place(Path(tempfile.mkdtemp()), "jsonl", mode="append")
>>> note_run(place.directory, "0123abcd", place.directory / "gone")
>>> for run in ("0123abcd", "ffffffff"):
...     (place.directory / f"part-{run}-000001-0.g1.jsonl.partial").touch()
>>> discard_leftovers(place, lambda checkpoints, _name: checkpoints.exists())
>>> [path.name for path in place.partials()]
['part-ffffffff-000001-0.g1.jsonl.partial']
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

from dgs.workers.sinks.files.owned import LIST, add_lines
from dgs.workers.sinks.files.part_file import is_abandoned
from dgs.workers.sinks.files.places import PARTIAL, RUN_LETTERS, Place
from dgs.workers.storage.whole_files import refusing

IsNeeded = Callable[[Path, str], bool]
"""Returns whether a run whose checkpoints are in a directory needs its file of this name."""


def note_run(directory: Path, run: str, checkpoints: Path) -> None:
    """Note in the list of a directory, durably and once, where the checkpoints of a run are. Raises OutputUnwritableError."""
    if run[:RUN_LETTERS] not in _runs(directory):
        where = os.path.relpath(checkpoints.resolve(), directory.resolve())
        add_lines(directory, [json.dumps({"run": run[:RUN_LETTERS], "checkpoints": where})])


def discard_leftovers(place: Place, is_needed: IsNeeded) -> None:
    """Remove the files without final names in a place whose runs do not need them. Raises OutputUnwritableError."""
    name_of = re.compile(
        rf"{place.mark}{place.stem}-([0-9a-f]{{{RUN_LETTERS}}})-.*\.{place.suffix}{re.escape(PARTIAL)}"
    )
    with refusing(place.directory):
        runs = _runs(place.directory)
        for path in place.partials():
            found = name_of.fullmatch(path.name)
            checkpoints = None if found is None else runs.get(found[1])
            if checkpoints is not None and not is_needed(checkpoints, path.name):
                is_abandoned(path)


def _runs(directory: Path) -> dict[str, Path]:
    """Return the places of the checkpoints of the runs in the list."""
    found: dict[str, Path] = {}
    try:
        lines = (directory / LIST).read_text(encoding="utf-8", errors="replace").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return found
    for line in lines:
        try:
            about = json.loads(line)
            found[about["run"]] = Path(os.path.normpath(directory.resolve() / about["checkpoints"]))
        except (ValueError, TypeError, KeyError):  # the line of a file, or a torn one
            continue
    return found
