"""The two sentences that explain a run: what holds it back, and the figures behind that."""

from __future__ import annotations

from collections.abc import Mapping

from dgs.observe import Blame, RunFigures
from dgs.view.moments import WorkerNow
from dgs.view.pictures.texts import count, event_time, seconds, share, size

BUSY = 0.5
"""A worker that is busy for a greater share of its time is named as the busiest."""

ENDED = ("done", "stopped", "failed", "killed", "interrupted", "refused")
GOING_ON = ("running", "stopping", "restarting")


def sentences(
    figures: RunFigures, cause: Blame | None, workers: Mapping[str, WorkerNow], status: str, why: str = ""
) -> tuple[str, str]:
    """Return what holds a run back, and the figures behind that. `why`: the error with which it ended."""
    if status not in GOING_ON:
        return _of_the_end(figures, status, why)
    if cause is None:
        return _of_the_busiest(workers)
    first, *rest = cause.sentence.split("; ")
    taken = sum(now.held_bytes for now in workers.values())
    rest = [f"{part} ({size(taken)})" if taken and part.endswith("events held") else part for part in rest]
    stream = figures.streams.get(cause.stream or "")
    if stream is not None and stream.frontier is not None:
        rest.insert(1, f"complete up to {event_time(stream.frontier, figures.unit)}")
    return _sentence(first), _sentence("; ".join(rest))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "." if text else ""


def _of_the_busiest(workers: Mapping[str, WorkerNow]) -> tuple[str, str]:
    name, busiest = max(workers.items(), key=lambda pair: pair[1].busy, default=("", WorkerNow("idle")))
    rest = [now.busy for other, now in workers.items() if other != name]
    if busiest.busy < BUSY:
        return "Nothing waits.", "No worker is busy for more than half of its time: the input sets the pace."
    others = f"; the others are busy {share(sum(rest) / len(rest))} on average" if rest else ""
    numbers = f"It is busy {share(busiest.busy)} of its time, with {count(busiest.rate)} events/s{others}."
    return f"Nothing waits; worker {name} works most.", numbers


def _of_the_beginning(figures: RunFigures) -> tuple[str, str]:
    nothing = "No figures of a worker have come yet."
    if len(figures.generations) < 2:  # noqa: PLR2004 - the first one of this process
        return "The run is starting.", nothing
    return "The run starts again.", f"{_sentence(figures.generations[-2].why.rstrip('.'))} {nothing}".strip()


def _of_the_end(figures: RunFigures, status: str, why: str) -> tuple[str, str]:
    took = seconds(figures.seconds)
    numbers = f"{figures.events:,} events, {figures.outputs:,} outputs in {took}."
    last = (why or (figures.generations[-1].why if figures.generations else "")).rstrip(".")
    epoch = figures.checkpoints.epoch
    committed = f" Committed up to epoch {epoch}." if epoch else " Nothing is committed."
    if status == "done":
        return "The run is done.", numbers
    if status == "starting":
        return _of_the_beginning(figures)
    if status == "failed":
        return f"The run has failed{': ' + last if last else ''}.", numbers + committed
    killed = "The process of the run was killed."
    return killed if status == "killed" else f"The run was {status}.", numbers + committed
