"""The shown values, made from the figures of a run as they come: counts become rates, waits become states and sentences."""

from __future__ import annotations

from collections.abc import Sequence

from dgs.observe import RunFigures, blame
from dgs.view.moments import Happening, Moment, Placed, Seen
from dgs.view.pictures.texts import count, plural, seconds, share, size
from dgs.view.sentences import ENDED, GOING_ON, sentences
from dgs.view.shown_steps import Step
from dgs.workers.observing.progress_line import WAITING_SECONDS, Rates, lag_of

MOST_ROWS = 60_000
"""About the most workers and streams of all moments together, so that a page of the largest run is drawn in some seconds."""

MOST_COMMITS = 1000


def most_moments(rows: int) -> int:
    """Return the number of moments to keep, given the number of workers and streams.

    >>> most_moments(5), most_moments(700)
    (600, 85)
    """
    return max(60, min(600, MOST_ROWS // max(rows, 1)))


class Shown:
    """The moments of a run, and what happened between them."""

    def __init__(self) -> None:
        self._plans: list[tuple[Placed, ...]] = []
        self._moments: list[Moment] = []
        self._happenings: list[Happening] = []
        self._before: RunFigures | None = None
        self._rates = Rates()
        self._began = 0.0

    def seen(self, **facts: str) -> Seen:
        """Return everything to show so far, with facts for the other fields of `Seen`."""
        found = {
            "plans": tuple(self._plans),
            "moments": tuple(self._moments),
            "happenings": tuple(self._happenings),
        }
        return Seen(**facts, **found)  # type: ignore[arg-type]

    def know_plans(self, plans: Sequence[tuple[Placed, ...]]) -> None:
        """Take the plans that the run has had by now."""
        for plan in plans:
            if all(_shape(plan) != _shape(known) for known in self._plans):
                self._plans.append(plan)

    def add(self, figures: RunFigures, *, ended: str | None = None, why: str = "") -> Moment:
        """Take the next figures; return the moment. `ended`: how the run ended, if these are its last ones, and `why`."""
        before = self._before
        self._began = figures.began if before is None else self._began
        if before is not None and before.generation < figures.generation:
            self._note_restarts(figures)
        if before is not None:
            self._note_checkpoints(before, figures)
            self._note_moves(before, figures)
        self._rates.add(figures)
        moment = self._moment(before, figures, ended, why)
        if ended is not None:
            self._happenings.append(Happening(moment.at, "end", f"{moment.sentence} {moment.more}"))
        self._before = figures
        self._moments.append(moment)
        self._thin()
        return moment

    def _thin(self) -> None:
        """If there are too many, drop every second moment, and commit, of the older half: a page may be open for weeks."""
        newest = self._moments[-1]
        if len(self._moments) > 2 * most_moments(len(newest.workers) + len(newest.streams)):
            half = len(self._moments) // 2
            self._moments[:half] = self._moments[:half:2]
        commits = [one for one in self._happenings if one.kind == "checkpoint"]
        if len(commits) > 2 * MOST_COMMITS:
            left_out = set(map(id, commits[1:MOST_COMMITS:2]))
            self._happenings = [one for one in self._happenings if id(one) not in left_out]

    def _moment(self, before: RunFigures | None, figures: RunFigures, ended: str | None, why: str) -> Moment:
        """Return a moment of the page from figures and those before. `why`: why the run ended."""
        place = self._plan_of(figures)
        names = [worker.name for worker in self._plans[place]]
        status = ended or figures.phase
        step = Step.whole(figures) if status in ENDED else Step.between(before, figures)
        workers = tuple(step.worker(name) for name in names)
        cause = blame(figures, after=WAITING_SECONDS) if status in GOING_ON else None
        sentence, more = sentences(figures, cause, dict(zip(names, workers, strict=True)), status, why)
        return Moment(
            at=figures.t - self._began,
            status=status,
            sentence=sentence,
            more=more,
            plan=place,
            cause="" if cause is None else cause.stream or cause.worker or "",
            chain=() if cause is None else cause.waiting,
            rate=step.rate,
            events=figures.events,
            outputs=figures.outputs,
            hosts=step.hosts,
            workers=workers,
            streams=step.streams("" if cause is None else cause.stream or ""),
            sinks=step.sinks(),
            lag=lag_of(figures),
            synchronisation_ms=step.synchronisation_ms,
            held=sum(now.held for now in workers),
            held_bytes=sum(now.held_bytes for now in workers),
            progress=self._progress(),
            epoch=figures.checkpoints.epoch or None,
            checkpoint=step.checkpoint,
            restarts=figures.restarts,
            between_hosts=step.between_hosts,
        )

    def _progress(self) -> str:
        """Return how much of the input is processed, and how long the rest takes; empty if that is not known."""
        part, left = self._rates.share, self._rates.seconds_left
        if part is None:
            return ""
        return share(part) + (f", {seconds(left)} left" if left and part < 1 else "")

    def _plan_of(self, figures: RunFigures) -> int:
        """Return the position of the plan of these figures; an unknown one becomes a plan of one level.

        The first figures lack the workers of the hosts that have not reported yet.
        """
        wanted = frozenset(figures.workers)
        names = [frozenset(worker.name for worker in plan) for plan in self._plans]
        newest_first = range(len(names) - 1, -1, -1)
        found = [i for i in newest_first if names[i] == wanted] or [
            i for i in newest_first if names[i] >= wanted
        ]
        if found:
            return found[0]
        root, *rest = figures.workers or ["?"]
        self._plans.append((Placed(root, None), *(Placed(name, 0) for name in rest)))
        return len(self._plans) - 1

    def _note_restarts(self, figures: RunFigures) -> None:
        known = {generation.number: generation for generation in figures.generations}
        ended = known.get(figures.generation - 1)
        now = known.get(figures.generation)
        why = ended.why if ended is not None and ended.why else "the generation before was lost"
        at = (now.began if now is not None else figures.t) - self._began
        self._happenings.append(Happening(at, "restart", f"generation {figures.generation} began: {why}"))

    def _note_checkpoints(self, before: RunFigures, figures: RunFigures) -> None:
        old, new = before.checkpoints, figures.checkpoints
        at = (new.at or figures.t) - self._began
        if new.committed > old.committed:
            text = f"epoch {new.epoch} was committed in {seconds(new.last_seconds)}, {size(new.state_bytes)} of state"
            self._happenings.append(Happening(at, "checkpoint", text, new.last_seconds))
        if new.failed > old.failed:
            number = plural(new.failed - old.failed, "checkpoint")
            self._happenings.append(
                Happening(figures.t - self._began, "failed checkpoint", f"{number} failed", new.last_seconds)
            )

    def _note_moves(self, before: RunFigures, figures: RunFigures) -> None:
        for move in figures.moves[len(before.moves) :]:
            text = f"the run moved to a plan of {plural(move.workers, 'worker')}; {count(move.before)} events/s before"
            self._happenings.append(Happening(figures.t - self._began, "switch", text))


def _shape(plan: Sequence[Placed]) -> list[tuple[str, int | None, str]]:
    return [(worker.name, worker.parent, worker.lanes) for worker in plan]
