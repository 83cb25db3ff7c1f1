"""The costs of a job: measured by a trial in another process, cached from an earlier trial, or typical. Costs of the machine are cached, too.

A trial takes about a second, most of it to start. So its costs are cached in a directory of this user on this machine, under a digest of
all that they depend on: the program with its arguments and its code, the first events, and the machine. Trials on a busy
machine are repeated by the next runs. The least value of each cost counts, since other processes only increase it. Costs are kept for
a core of one pace, whatever the pace of the core that measured them, and are used for the pace that this machine usually has.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from dgs import codec
from dgs.errors import DgsError
from dgs.errors.raised import RAISED, is_ours
from dgs.job import private_files
from dgs.job.program_code import code_of
from dgs.job.run_directory import read_object
from dgs.planner.prediction.costs import TYPICAL, TYPICAL_COLUMNS, Costs
from dgs.workers.runtime import process
from dgs.workers.trial.stopwatch import PACE, pace, possible_pace

if TYPE_CHECKING:
    from dgs.job.schema import ProgramConfig, RuntimeConfig, StreamConfig
    from dgs.model.program import Program
    from dgs.workers.sources.contract import SourceContext
    from dgs.workers.trial.trial_process import Question

VERSION = 32
"""Changes when costs are measured in another way, so that older ones are not used."""

TRIALS, MOST_TRIALS = 2, 5
"""The measurements after which costs are accepted, and those on a busy machine."""

PACES = 40
"""The latest paces of which the mean is the usual one. Each planning measures one."""

LONGEST_KEPT = 30 * 86_400.0
"""Seconds for which costs are cached: a machine and its libraries change."""

MOST_KEPT = 500
"""The most files of costs in the directory."""


TYPICAL_ORIGIN = "typical"


@dataclass(frozen=True, slots=True)
class KnownCosts:
    """The costs of a job. `origin`: where they come from. `problem`: why some of them are only typical."""

    costs: Costs
    origin: str
    problem: str | None = None

    @property
    def warning(self) -> str | None:
        """A sentence about the problem, if there is one."""
        if self.problem is None:
            return None
        return f"its plan is chosen by typical costs, since they could not be measured: {self.problem}"

    def section(self, given: RuntimeConfig) -> RuntimeConfig:
        """Return the `runtime:` section of the run: hosts do not load the compiler if the trial has found that it does not pay."""
        if given.compile == "auto" and self.costs.is_interpreted:
            return given.model_copy(update={"compile": "off"})
        return given


def known_costs(
    context: SourceContext,
    streams: Sequence[StreamConfig],
    config: ProgramConfig | None,
    sinks: Sequence[str] = (),
    *,
    is_shared: bool = False,
) -> KnownCosts:
    """Return the costs of the program in `context`: cached ones, else those of a trial. A program cannot make this fail.

    `config`: how a plan file names the program, None for an object. `sinks`: the kinds of the job's sinks. `is_shared`: other processes
    read the data in memory, and send outputs to this one.
    """
    from dgs.workers.sources.sampling import with_sources
    from dgs.workers.trial.trial import sentence_of
    from dgs.workers.trial.trial_process import tried

    program = context.program
    sinks = [kind for kind in sinks if is_shared or kind != "memory"]
    try:
        question = _question(context, streams, config, sinks)
        if question is None:
            return typical_costs(program, "its streams have no events yet")
        code = code_of(program, context.base_dir, config.ref if config else None)
    except RAISED as error:
        if is_ours(error):
            raise
        return typical_costs(program, sentence_of(error))
    place = _place("trial", code, question.subject, [stream.source.kind for stream in streams], is_shared)
    kept = _kept(place)
    if kept is not None and not kept.is_doubtful:
        return KnownCosts(_on_this_machine(kept.costs), "kept from an earlier trial")
    found = tried(question)
    if kept is not None and found.problem is not None:
        return KnownCosts(_on_this_machine(kept.costs), "kept from an earlier trial")
    if found.problem is not None and found.costs == TYPICAL:
        return typical_costs(program, found.problem)
    reading = _at_kept_pace(lambda: with_sources(TYPICAL, streams, context, is_shared=is_shared))
    costs = found.costs.on_another_core(PACE / found.pace)
    costs = replace(costs, sources=reading.sources, carried=reading.carried)
    if found.problem is None:
        costs = _keep(place, costs, kept)
    return KnownCosts(_on_this_machine(costs), "measured in a trial", found.problem)


def _at_kept_pace(measure: Callable[[], Costs]) -> Costs:
    """Return what is measured here as it is at the pace for which costs are kept."""
    before, costs = pace(), measure()
    return costs.on_another_core(PACE / min(before, pace()))


def _on_this_machine(costs: Costs) -> Costs:
    """Return the costs of a program, for the kept pace, with those of the machine, measured unless they are cached, for its usual pace."""
    from dgs.workers.ray_runtime.machine_costs import MEASURED, machine_costs

    place = _place("machine")
    kept = _kept(place)
    try:
        found = (
            _keep(place, _at_kept_pace(machine_costs), kept)
            if kept is None or kept.is_doubtful
            else kept.costs
        )
    except DgsError:  # a run that needs what is missing here soon fails with a message
        found = TYPICAL
    costs = replace(costs, **{name: getattr(found, name) for name in MEASURED})
    return costs.on_another_core(_usual_pace() / PACE)


def _usual_pace() -> float:
    """Return the mean of the latest paces of this machine, the present one included, which is kept for later plans.

    It is rounded, so that a plan made twice is the same plan.
    """
    place, paces = _place("paces"), list[float]()
    with suppress(DgsError, OSError, LookupError, TypeError, ValueError):
        private_files.refuse_foreign(place)
        paces = [possible_pace(one) for one in read_object(place)["paces"]]
    latest = [*paces, pace()][-PACES:]
    _write(place, {"paces": latest})
    return round(fmean(latest), 5)


def typical_costs(program: Program, problem: str | None = None) -> KnownCosts:
    """Return typical costs, for a program without a trial. `problem`: why it has none, if it was tried."""
    costs = replace(TYPICAL, columns=TYPICAL_COLUMNS) if program.is_vectorised else TYPICAL
    return KnownCosts(costs, TYPICAL_ORIGIN, problem)


def _question(
    context: SourceContext,
    streams: Sequence[StreamConfig],
    config: ProgramConfig | None,
    sinks: Sequence[str],
) -> Question | None:
    """Return the question for the trial process, None if there are no events. Raises whatever the user's sources and objects raise."""
    from dgs.workers.ray_runtime import shipped_trial
    from dgs.workers.sources.sampling import first_events
    from dgs.workers.trial import trial_process

    batches = first_events(streams, context)
    if not batches:
        return None
    if config is None:
        return shipped_trial.question_of(context.program, batches, sinks)
    return trial_process.question_of(config, context.base_dir, batches, sinks)


def _place(*subject: Any) -> Path:
    """Return the file for the costs of a subject, in a directory of this user on this machine."""
    here = [VERSION, process.this_machine(), platform.python_version()]
    digest = hashlib.blake2b(codec.encode([here, *subject]), digest_size=16).hexdigest()
    return Path(tempfile.gettempdir()) / f"dgs-{os.geteuid()}" / "costs" / f"{digest}.json"


@dataclass(frozen=True, slots=True)
class _Kept:
    """Costs from a file, the least of `trials` measurements. `is_doubtful`: they are too few."""

    costs: Costs
    trials: int
    is_doubtful: bool


def _kept(place: Path) -> _Kept | None:
    with suppress(DgsError, OSError, LookupError, TypeError, ValueError, OverflowError):
        private_files.refuse_foreign(place)
        if _age(place) > LONGEST_KEPT:
            return None
        data = read_object(place)
        trials = int(data["trials"])
        enough = MOST_TRIALS if data["was_busy"] else TRIALS
        return _Kept(Costs.from_data(data["costs"]), trials, trials < enough)
    return None


def _keep(place: Path, costs: Costs, before: _Kept | None = None) -> Costs:
    """Cache the least of these costs and earlier ones; return what is cached."""
    if before is not None:
        costs = costs.least(before.costs)
    trials = 1 + (before.trials if before is not None else 0)
    data = {"costs": costs.as_data(), "trials": trials, "was_busy": _is_busy()}
    _write(place, data)
    return costs


def _write(place: Path, data: Mapping[str, Any]) -> None:
    """Write a file of the cache, if that is possible."""
    with suppress(OSError, DgsError):
        private_files.make_directory(place.parent.parent)
        private_files.make_directory(place.parent)
        private_files.write(place, json.dumps(data))
        _prune(place.parent)


def _is_busy() -> bool:
    """Return whether the processes of the machine want all of its cores."""
    return os.getloadavg()[0] >= (os.cpu_count() or 1)


def _prune(directory: Path) -> None:
    """Delete files that are too old, and the oldest of too many."""
    newest = sorted(directory.glob("*.json"), key=_age)
    for number, path in enumerate(newest):
        if number >= MOST_KEPT or _age(path) > LONGEST_KEPT:
            path.unlink(missing_ok=True)


def _age(path: Path) -> float:
    """Return the seconds since a file was written, by the clock of the file system; 0 if it has gone."""
    try:
        return process.now() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
