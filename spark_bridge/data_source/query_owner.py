"""Which query may write a stream of a log: the one that began it, as long as its Spark checkpoint directory is there.

Spark knows a query by an id in its checkpoint directory. A query with another id is another writer, and refused. If the first one's
directory is lost it will never come back; then a new query may go on, provided that it repeats every batch there is with the same
rows: those are not written again, and from the first new batch on the stream is its own.

>>> import tempfile
>>> directory = Path(tempfile.mkdtemp()) / "clicks"
>>> make_directory(directory)
>>> query = Query("id-1", checkpoint="/gone")
>>> owner.claim(directory, query.writer)
>>> query.note(directory)
>>> standing(directory, query), standing(directory, Query("id-2"))
('owner', 'successor')
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dgs.errors import OwnedLogError
from dgs.workers.event_log import owner
from dgs.workers.storage.whole_files import make_directory, replace_with

PREFIX = "spark:"
_PLACE = re.compile(r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?://[^/]*)?)?(?P<path>.*)", re.DOTALL)
"""A path as Hadoop reads it: nothing in it is escaped."""

NOTE, REPEATED = "query.json", "repeated.json"


@dataclass(frozen=True)
class Query:
    """A query by its id. `checkpoint`: its checkpoint directory, as far as it has told."""

    id: str
    checkpoint: str | None = None

    @property
    def writer(self) -> str:
        """Its name as the writer of a log."""
        return f"{PREFIX}{self.id}"

    def note(self, directory: Path) -> None:
        """Leave word in the directory of a stream of who writes it, for `standing`."""
        data = {"query": self.id, "checkpoint": self.checkpoint}
        if _json(directory / NOTE) != data:
            replace_with(directory / NOTE, json.dumps(data).encode())


def standing(directory: Path, query: Query) -> Literal["owner", "successor"]:
    """Return what a query is to a stream: its owner, perhaps from now on, or one that may succeed a lost one.

    Raises OwnedLogError if the stream is another's.
    """
    found = owner.owner(directory)
    if found is None or found == query.writer:
        return "owner"
    note = _json(directory / NOTE)
    is_lost = found == f"{PREFIX}{note.get('query')}" and _is_lost(note["query"], note.get("checkpoint"))
    if not is_lost:
        raise OwnedLogError(path=directory.parent, stream=directory.name, owner=found, writer=query.writer)
    return "successor"


def repeated(directory: Path, query: Query) -> int:
    """Return how many batches of a log a successor has repeated so far."""
    data = _json(directory / REPEATED)
    return int(data["batches"]) if data.get("query") == query.id else 0


def note_repeated(directory: Path, query: Query, batches: int) -> None:
    """Remember how many batches a successor has repeated."""
    replace_with(directory / REPEATED, json.dumps({"query": query.id, "batches": batches}).encode())


def _is_lost(query: str, checkpoint: str | None) -> bool:
    """Whether the checkpoint directory of a query is gone, or another query's. Where it cannot be seen from here it is not."""
    if checkpoint is None:
        return False
    place = _PLACE.fullmatch(checkpoint)
    if place is None or place["scheme"] not in (None, "file"):
        return False
    return bool(_json(Path(place["path"]) / "metadata").get("id") != query)


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


__all__ = ["Query", "make_directory", "note_repeated", "repeated", "standing"]
