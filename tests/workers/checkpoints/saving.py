"""Checkpoints for tests of stores. Every part contains the epoch, so a mixture of two is noticed.

>>> checkpoint(7).state
b'state of 7'
"""

from __future__ import annotations

from pathlib import Path

from dgs.model.identity import ProgramIdentity
from dgs.model.order import OrderKey
from dgs.model.outputs import OutputBatch
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag
from dgs.workers.checkpoints.directory_store import DirectoryStore
from dgs.workers.recovery.checkpoint import Checkpoint, StagedFile
from dgs.workers.recovery.positions import Layer, Part, Positions

SUMS = ProgramIdentity("Sums", 1, {"streams in order": "'a', 'b'"})
FOLDER = Path("/checkpoints")


def positions(epoch: int) -> Positions:
    if not epoch:
        return Positions()
    part = Part(0, TagSet.everything(), OrderKey(10 * epoch, 0, epoch))
    return Positions({"a": (Layer(1, (part,)),)})


def staged(epoch: int) -> StagedFile:
    return StagedFile(f"/out/{epoch}.staged", f"/out/{epoch}.jsonl", epoch, f"{epoch:064x}", epoch)


def outbox(epoch: int) -> OutputBatch:
    return OutputBatch.of(
        "a", rank=0, tags=[Tag("x")], ts=[10 * epoch - 1], seq=[0], index=[0], values=[epoch]
    )


def checkpoint(epoch: int, **changes) -> Checkpoint:
    given = {
        "state": f"state of {epoch}".encode(),
        "files": (staged(epoch),),
        "outbox": (outbox(epoch),),
        "sources": {"a": {"size": epoch}},
        "events": 100 * epoch,
    }
    return Checkpoint(epoch, positions=positions(epoch), **{**given, **changes})


def open_store(path=FOLDER, disk=None, **options) -> DirectoryStore:
    given = {"identity": SUMS, "publish": lambda _files: None, "clock": lambda: 0}
    return DirectoryStore(path, disk, **{**given, **options})


def assert_whole(point, epoch: int, used: int | None = None) -> None:
    """Check that all parts of a resume point are of the epoch, or, for parts of the state, of an older epoch in use."""
    used = epoch if used is None else used
    assert point.epoch == epoch
    assert point.state == (f"state of {used}".encode() if used else None)
    assert point.positions == positions(used)
    assert point.committed == positions(epoch)
    assert [batch.to_list() for batch in point.outbox] == ([[epoch]] if epoch else [])
    assert point.sources == ({"a": {"size": used}} if used else {})
    assert point.events == 100 * used
