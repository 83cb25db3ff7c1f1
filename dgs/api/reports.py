"""The report of a run, for results.json and `--json`, whether it is complete, was stopped or failed; and the story of a run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgs.api.known_runs import KILLED
from dgs.errors import DgsError, NoSuchRunError, UsageError
from dgs.errors.as_data import as_data
from dgs.errors.hidden_values import masked
from dgs.model.tag_sets import TagSet
from dgs.workers.runtime import process

if TYPE_CHECKING:
    from dgs.api.known_runs import KnownRun
    from dgs.api.preparing import Launch, Prepared
    from dgs.planner.plan import Plan
    from dgs.spark_bridge.ingest.left_out import RowsLeftOut
    from dgs.workers.observing.figures import RunFigures, SinkFigures, WorkerFigures
    from dgs.workers.protocol.story_words import StoryEntry
    from dgs.workers.runtime.job import JobResult


class StartUp:
    """The seconds that the parts of a run took to start. `began`: when the run began, in seconds since 1970. `seconds`: by part."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.seconds: dict[str, float] = {}

    def ready(self, part: str) -> None:
        """Note that a part has started. Only its first start counts."""
        self.seconds.setdefault(part, process.now() - self.began)

    def of_work(self, seconds: float) -> float:
        """Return the part of the time since the hosts started in which the run worked and did not wait for Spark."""
        hosts = self.seconds.get("Ray", 0.0)
        return seconds - min(max(self.seconds.get("Spark", 0.0) - hosts, 0.0), seconds)


MOST_TAGS = 1000
"""Tags of a stream in the report."""

CLOSE = 0.001
"""Seconds by which rounded times of one process differ."""


def report_of(
    launch: Launch,
    start_up: StartUp,
    result: JobResult,
    differences: Sequence[str] | None,
    *,
    events_before: int = 0,
    left_out: Sequence[RowsLeftOut] = (),
) -> dict[str, Any]:
    """Return the report of a run that ended well or was stopped.

    `events_in`: events in the state, of which `events_before` were there before this process began. `outputs`: of this process.
    `seconds`: of the work, after the `start_up_seconds` of Ray's hosts and Spark. `throughput_eps`: events
    of this process per second. `epoch`: the last committed one, if any.
    `stopped_at`: the epoch committed for the stop. `between_hosts`: frames of the last generation, and their bytes, by the child of
    each edge of its plan. `skipped`: events that the program failed on, and rows that Spark left out, in this process; `left_out` has all
    rows that are not in the logs. `streams`: the events of each, and of its tags if the run has counted them. `tail`: for a flow with
    several workers, those that close its blocks, and how long they were busy.
    """
    figures = result.figures
    run_dir = None if launch.directory is None else launch.directory.path
    return {
        "status": "done" if result.stopped_by is None else "stopped",
        **_about(launch.prepared, start_up.began),
        **_throughput(figures, events_before, start_up.of_work(figures.seconds)),
        "hosts": len(figures.hosts),
        "workers": len(figures.workers),
        "streams": _streams(result),
        "sinks": {name: _sink(sink) for name, sink in figures.sinks.items()},
        "drops": {name: stream.dropped for name, stream in figures.streams.items()},
        "skipped": figures.skipped + sum(one.rows - one.rows_before for one in left_out),
        "left_out": [_left_out(one) for one in left_out],
        "dead_letters": None if run_dir is None else _dead_letters(run_dir),
        "verified": None if differences is None else not differences,
        "differences": list(differences or ()),
        "run_dir": None if run_dir is None else str(run_dir),
        "stopped_by": result.stopped_by,
        "stopped_at": result.stopped_at,
        "epoch": figures.checkpoints.epoch or None,
        "start_up_seconds": dict(start_up.seconds),
        "first_output_seconds": figures.first_output_seconds,
        "starved_reads": figures.starved_reads,
        "between_hosts": _between_hosts(launch.prepared.plan, figures),
        "per_worker": {name: _worker(worker) for name, worker in figures.workers.items()},
        **({} if (tail := _tail(launch.prepared, figures)) is None else {"tail": tail}),
        **({} if figures.waited is None else {"waited": list(figures.waited)}),
        "checkpoints": asdict(figures.checkpoints),
        "restarts": figures.restarts,
        "moves": [asdict(move) for move in figures.moves],
    }


def _throughput(figures: RunFigures, before: int, seconds: float) -> dict[str, Any]:
    """Return the events, outputs and seconds of a run. `before`: events before this process."""
    events = max(figures.events - before, 0)
    return {
        "events_in": figures.events,
        "events_before": before,
        "outputs": figures.outputs,
        "seconds": seconds,
        "throughput_eps": events / seconds if seconds > 0 else None,
    }


def _between_hosts(plan: Plan, figures: RunFigures) -> dict[str, Any]:
    """Return the network load: what workers sent along the edges of the plan that cross hosts, and what readers sent to workers."""
    parents = {child.id: node.id for node in plan.nodes() for child in node.children}
    edges: dict[str, dict[str, Any]] = {}
    sent = [(edge.rpartition(":"), size) for edge, size in sorted(figures.sent.items())]
    for (worker, _, way), size in sent:
        if way in ("down", "up"):
            edges.setdefault(worker, {"parent": parents.get(worker), "down": 0, "up": 0})[way] = size
    return {
        "bytes": sum(figures.sent.values()),
        "frames": sum(pair.frames for pair in figures.pairs.values()),
        "edges": edges,
        "inputs": {worker: size for (worker, _, way), size in sent if way == "input"},
    }


def _tail(prepared: Prepared, figures: RunFigures) -> dict[str, Any] | None:
    """Return the busiest worker that closes blocks of a flow, its seconds and their share of the run, and the seconds of `all` such workers."""
    stamped = TagSet.of(*prepared.program.stamps)
    closing = [
        node.id for node in prepared.plan.nodes() if any(tags & stamped for _, tags in node.tags.streams)
    ]
    found = {name: figures.workers[name] for name in closing if name in figures.workers}
    if not found or len(figures.workers) == 1:
        return None
    busy = {name: one.busy_seconds for name, one in found.items()}
    worker, seconds = max(busy.items(), key=lambda one: one[1])
    share = seconds / figures.seconds if figures.seconds else 0.0
    return {"worker": worker, "seconds": seconds, "share": share, "all": busy}


def _streams(result: JobResult) -> dict[str, Any]:
    """Return the events of each stream, and of its tags: the most frequent ones, and all others together."""
    found: dict[str, Any] = {
        name: {"events": stream.events} for name, stream in result.figures.streams.items()
    }
    tags: dict[str, dict[str | None, float]] = {}
    for (name, tag), events in result.counted.items():
        text = None if tag is None else repr(tag)
        tags.setdefault(name, {})[text] = events
    for name, counts in tags.items():
        frequent = sorted(counts, key=lambda text: (text is not None, counts[text]))[-MOST_TAGS:]
        listed = {text: round(counts[text]) for text in reversed(frequent) if text is not None}
        events = round(sum(counts.values()))
        others = events - sum(listed.values())
        found[name] = {"events": events, "tags": listed, "others": max(0, others)}
    return found


def _sink(sink: SinkFigures) -> dict[str, Any]:
    return {"outputs": sink.outputs, "bytes": sink.bytes, "seconds": sink.seconds}


def _worker(worker: WorkerFigures) -> dict[str, Any]:
    """Return the figures of a worker at the end, when nothing waits any more."""
    passing = ("waits_for", "held_events", "held_bytes")
    return {name: value for name, value in asdict(worker).items() if name not in passing}


def _left_out(rows: RowsLeftOut) -> dict[str, Any]:
    place = rows.dead_letters
    return {
        "streams": list(rows.streams),
        "rows": rows.rows,
        "reasons": dict(rows.reasons),
        "dead_letters": None if place is None else str(place),
    }


def _dead_letters(run_dir: Path) -> str | None:
    """Return the file of dead letters, a pattern if there are several, None if there is none."""
    from dgs.workers.sinks.files.places import dead_letter_place

    place = dead_letter_place(run_dir)
    found = place.finals()
    if not found:
        return None
    return str(found[0] if len(found) == 1 else run_dir / f"{place.stem}-*.{place.suffix}")


def failure(launch: Launch, started: float, error: BaseException) -> dict[str, Any]:
    """Return the report of a run that failed or was interrupted."""
    told = error_data(error)
    status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
    return {
        "status": status,
        **_about(launch.prepared, started),
        "error": told,
        "seconds": process.now() - started,
        **_reached(launch, started),
    }


def _reached(launch: Launch, started: float) -> dict[str, Any]:
    """Return how far an unfinished run got, from its last figures; nothing if it has none since it started."""
    from dgs.observe import newest

    try:
        last = None if launch.directory is None else newest(launch.directory.path)
    except (DgsError, OSError):
        return {}
    if last is None or last.began < started - CLOSE or not last.workers:
        return {}
    return last.reached


def error_data(error: BaseException) -> dict[str, Any]:
    """Return an error as data (see `dgs.errors.as_data`); for a foreign error its sentence."""
    if not isinstance(error, DgsError):
        return {"code": None, "message": masked(f"{type(error).__name__}: {error}")}
    return as_data(error)


def _about(prepared: Prepared, started: float) -> dict[str, Any]:
    return {
        "name": prepared.config.name,
        "program": prepared.program.name,
        "machine": process.this_machine(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(started)),
        "runtime": prepared.config.runtime.kind,
        "plan": {
            "optimizer": prepared.plan.optimizer,
            "workers": len(prepared.plan),
            "leaves": len(prepared.plan.leaves),
            "depth": prepared.plan.depth,
        },
    }


def story_of(run: KnownRun, *, worker: str | None = None) -> list[StoryEntry]:
    """Return the story of a run before it failed, the oldest entry first. `worker`: only entries about this worker.

    Raises NoSuchRunError if the run left no story, UsageError if it has no entry about the worker.
    """
    from dgs.workers.runtime.run_story import read_story

    entries = read_story(run.directory.story)
    if not entries:
        raise NoSuchRunError(
            problem=f"the run in {run.directory.path} has left no story{run.ending}",
            advice=f"Go on with it: `dgs resume {run.directory.path}`"
            if run.status == KILLED
            else "A run leaves one when it fails, waits for longer than `runtime.stall_after`, or stops without a checkpoint",
        )
    if worker is None:
        return entries
    found = [entry for entry in entries if worker in entry.workers]
    if not found:
        known = ", ".join(sorted({name for entry in entries for name in entry.workers})) or "none"
        raise UsageError(message=f"nothing in the story concerns worker {worker!r}; it has: {known}")
    return found
