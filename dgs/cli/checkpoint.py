"""`dgs checkpoint`: lists, shows, verifies and prunes a directory of checkpoints."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dgs.cli.reporting import Ending, print_json, print_table, say, verb

if TYPE_CHECKING:
    from dgs.model.order import OrderKey
    from dgs.workers.checkpoints.directory import CheckpointDirectory, CheckpointInfo
    from dgs.workers.checkpoints.saved import Manifest

DAMAGED = 6
"""The exit code if a file cannot be used."""

POSITION = ("stream", "splits", "split", "tags", "position")
"""The fields of each part of a position."""


class Action(StrEnum):
    """The actions on checkpoints."""

    LS = "ls"
    SHOW = "show"
    VERIFY = "verify"
    PRUNE = "prune"


# fmt: off
What = Annotated[Action, typer.Argument(
    help="ls: list them. show: tell all of one. verify: read every file, exit 6 if one is damaged. prune: remove all but the newest.",
    show_default=False)]
Directory = Annotated[Path, typer.Argument(metavar="DIR | PLAN",
    help="The directory of a run, or of its checkpoints; or the plan.yaml whose newest run is meant.", show_default=False)]
Epoch = Annotated[int | None, typer.Option("--epoch", metavar="N",
    help="For show: which one (default: the newest).")]
Keep = Annotated[int, typer.Option("--keep", min=1, metavar="N", help="For prune: how many to keep.")]
# fmt: on


@verb
def checkpoint(
    ending: Ending, action: What, directory: Directory, *, epoch: Epoch = None, keep: Keep = 1
) -> None:
    """List, show, verify or prune the checkpoints of a run."""
    found = _opened(directory)
    if action is Action.LS:
        _list(found, as_json=ending.as_json)
    elif action is Action.SHOW:
        _show(found, epoch, as_json=ending.as_json)
    elif action is Action.VERIFY:
        _verify(found, as_json=ending.as_json)
    else:
        _prune(found, keep, as_json=ending.as_json)


def _opened(directory: Path) -> CheckpointDirectory:
    """Return the checkpoints of a run, or of a directory. Raises NoSuchRunError if there are none."""
    from dgs.api.known_runs import holds_checkpoints, run_at
    from dgs.errors import NoSuchRunError
    from dgs.job.run_directory import ABOUT, RunDirectory
    from dgs.workers.checkpoints.directory import CheckpointDirectory

    run = run_at(directory).directory if directory.is_file() else RunDirectory(directory)
    # also if run.json is lost
    is_of_a_run = (run.path / ABOUT).is_file() or holds_checkpoints(run.checkpoints)
    place = run.checkpoints if is_of_a_run else directory
    if not holds_checkpoints(place):
        problem = f"there are no checkpoints in {place}"
        raise NoSuchRunError(problem=problem, advice="A run takes them if its plan file has `checkpoint:`")
    return CheckpointDirectory(place)


def _list(found: CheckpointDirectory, *, as_json: bool) -> None:
    infos = found.list()
    committed = found.committed()
    last = None if committed is None else committed.checkpoint
    if as_json:
        record = None if last is None else {"epoch": last.epoch, "is_final": last.is_final}
        print_json({"checkpoints": [_facts(info) for info in infos], "committed": record})
        return
    head = ("epoch", "created", "generation", "events", "bytes", "files", "state")
    print_table(head, [_row(info) for info in infos])
    if last is None:
        say("dgs: there is no valid record of what is committed")
    else:
        say(f"dgs: epoch {last.epoch} is committed{', the end of all streams' if last.is_final else ''}")


def _row(info: CheckpointInfo) -> tuple[Any, ...]:
    if info.manifest is None:
        return (info.epoch, None, None, None, None, None, f"damaged: {info.problem}")
    one = info.manifest
    how = "committed" if info.is_committed else "never committed"
    files = len(one.checkpoint.files)
    return (info.epoch, _time(one.created_at), one.generation, one.checkpoint.events, one.size, files, how)


def _facts(info: CheckpointInfo) -> dict[str, Any]:
    told = {
        "epoch": info.epoch,
        "file": info.file,
        "is_committed": info.is_committed,
        "problem": info.problem,
    }
    return told if info.manifest is None else {**told, **_about(info.manifest)}


def _about(manifest: Manifest) -> dict[str, Any]:
    last = manifest.checkpoint
    return {
        "program": str(manifest.identity),
        "created": _time(manifest.created_at),
        "generation": manifest.generation,
        "events": last.events,
        "is_final": last.is_final,
        "watermark": _key(manifest.watermark),
        "state_bytes": manifest.size,
        "state_digest": manifest.digest,
        "files": [{"path": file.final, "rows": file.rows, "bytes": file.size} for file in last.files],
    }


def _show(found: CheckpointDirectory, epoch: int | None, *, as_json: bool) -> None:
    from dgs.errors import UsageError

    infos = found.list()
    epochs = [info.epoch for info in infos]
    if not epochs or (epoch is not None and epoch not in epochs):
        there = f"; there are {', '.join(map(str, epochs))}" if epochs else ""
        wanted = "state" if epoch is None else f"state of epoch {epoch}"
        raise UsageError(message=f"there is no {wanted} in {found.path}{there}")
    info = infos[-1 if epoch is None else epochs.index(epoch)]
    manifest = info.manifest or found.load(info.epoch).manifest  # a run may have removed the file meanwhile
    rows = _positions(manifest)
    if as_json:
        positions = [dict(zip(POSITION, row, strict=True)) for row in rows]
        print_json({"epoch": manifest.checkpoint.epoch, **_about(manifest), "positions": positions})
        return
    told = {"epoch": manifest.checkpoint.epoch, **_about(manifest)}
    files = told.pop("files")
    for name, value in told.items():
        print(f"{name.replace('_', ' '):<13} {value}")
    print()
    print_table(POSITION, rows)
    if files:
        print()
        print_table(("output file", "rows", "bytes"), [tuple(file.values()) for file in files])


def _positions(manifest: Manifest) -> list[tuple[Any, ...]]:
    """Return the positions of a state: for each stream, split and set of tags, the key below which it has all events."""
    return [
        (stream, layer.splits, part.split, str(part.tags), _key(part.key))
        for stream, layers in manifest.checkpoint.positions.streams.items()
        for layer in layers
        for part in layer.parts
    ]


def _verify(found: CheckpointDirectory, *, as_json: bool) -> None:
    told = found.verify()
    damaged = [name for name, problem in told if problem is not None]
    if as_json:
        files = [{"file": name, "problem": problem} for name, problem in told]
        print_json({"files": files, "ok": not damaged})
    else:
        print_table(("file", "problem"), [(name, problem or "none") for name, problem in told])
    if damaged:
        say(f"dgs: {len(damaged)} of {len(told)} files in {found.path} cannot be used: {', '.join(damaged)}")
        raise typer.Exit(DAMAGED)


def _prune(found: CheckpointDirectory, keep: int, *, as_json: bool) -> None:
    removed = found.prune(keep)
    if as_json:
        print_json({"removed": removed})
    say(f"dgs: removed {', '.join(removed)}" if removed else "dgs: there was nothing to remove")


def _time(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).isoformat(sep=" ", timespec="seconds")


def _key(key: OrderKey) -> str:
    """Return a position as text: (ts, rank, seq), or the beginning or end of a stream."""
    from dgs.model.order import BEGIN, END

    if key >= END:
        return "end"
    return "begin" if key == BEGIN else f"({key.ts}, {key.rank}, {key.seq})"
