"""The owner of a log's stream: the query that began it, as long as its Spark checkpoint directory exists.

Spark identifies a query by an id in its checkpoint directory. A query with another id is another writer, and refused. If the owner's
directory is lost, the owner cannot return, and a new query may succeed it. It must repeat every batch of the log with the same rows. These
are not written again, and with the first new batch it becomes the owner.

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
from typing import Literal

from dgs.errors import OwnedLogError
from dgs.job.run_directory import read_object
from dgs.workers.event_log import owner
from dgs.workers.storage.disk import make_directory, replace_with

PREFIX = "spark:"
_PLACE = re.compile(r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?://[^/]*)?)?(?P<path>.*)", re.DOTALL)
"""A path in Hadoop's form, without escapes."""

NOTE, REPEATED = "query.json", "repeated.json"


@dataclass(frozen=True)
class Query:
    """A query by its id. `checkpoint`: its checkpoint directory, None if unknown."""

    id: str
    checkpoint: str | None = None

    @property
    def writer(self) -> str:
        """The query's name as the writer of a log."""
        return f"{PREFIX}{self.id}"

    def note(self, directory: Path) -> None:
        """Record this query in the directory of a stream as its writer, for `standing`."""
        data = {"query": self.id, "checkpoint": self.checkpoint}
        if read_object(directory / NOTE) != data:
            replace_with(directory / NOTE, json.dumps(data).encode())


def standing(directory: Path, query: Query) -> Literal["owner", "successor"]:
    """Return the role of a query for a stream: the owner (also of a stream without one), or the possible successor of a lost owner.

    Raises OwnedLogError if the stream belongs to another query.
    """
    found = owner.owner(directory)
    if found is None or found == query.writer:
        return "owner"
    note = read_object(directory / NOTE)
    is_lost = found == f"{PREFIX}{note.get('query')}" and _is_lost(note["query"], note.get("checkpoint"))
    if not is_lost:
        raise OwnedLogError(path=directory.parent, stream=directory.name, owner=found, writer=query.writer)
    return "successor"


def repeated(directory: Path, query: Query) -> int:
    """Return the number of batches that a successor has repeated so far."""
    data = read_object(directory / REPEATED)
    return int(data["batches"]) if data.get("query") == query.id else 0


def note_repeated(directory: Path, query: Query, batches: int) -> None:
    """Record the number of batches that a successor has repeated."""
    replace_with(directory / REPEATED, json.dumps({"query": query.id, "batches": batches}).encode())


def _is_lost(query: str, checkpoint: str | None) -> bool:
    """Whether the checkpoint directory of a query is gone, or another query's. A directory elsewhere than on this file system counts as there."""
    if checkpoint is None:
        return False
    place = _PLACE.fullmatch(checkpoint)
    if place is None or place["scheme"] not in (None, "file"):
        return False
    return bool(read_object(Path(place["path"]) / "metadata").get("id") != query)


__all__ = ["Query", "make_directory", "note_repeated", "repeated", "standing"]
