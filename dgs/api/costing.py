"""The costs of a job: measured by a trial in another process, kept from an earlier trial, or typical. Those of the machine are kept, too.

A trial takes about a second, most of it to start. So its costs are kept in a directory of this user on this machine, under a
digest of all that they depend on: the program with its arguments and its code, the first events, and the machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgs import codec
from dgs.errors import DgsError
from dgs.job import private_files
from dgs.job.program_code import code_of
from dgs.job.run_directory import read_object
from dgs.model.user_code import RAISED, is_interrupt
from dgs.planner.prediction.costs import TYPICAL, TYPICAL_COLUMNS, Costs

if TYPE_CHECKING:
    from dgs.job.schema import ProgramConfig, StreamConfig
    from dgs.model.program import Program
    from dgs.workers.sources.context import SourceContext
    from dgs.workers.trial.trial_process import Question

VERSION = 1
"""Raised when costs are measured in another way, so that those from before are not used."""


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


def known_costs(
    context: SourceContext, streams: Sequence[StreamConfig], config: ProgramConfig | None
) -> KnownCosts:
    """Return the costs of the program in `context`: kept ones, else those of a trial. Nothing that the program does stops this.

    `config`: how a plan file names the program, None for an object.
    """
    from dgs.workers.trial.trial import sentence_of
    from dgs.workers.trial.trial_process import tried

    program = context.program
    try:
        question = _question(context, streams, config)
        if question is None:
            return typical_costs(program, "its streams have no events yet")
        code = code_of(program, context.base_dir, config.ref if config else None)
    except RAISED as error:
        if is_interrupt(error):
            raise
        return typical_costs(program, sentence_of(error))
    place = _place("trial", code, question.subject)
    kept = _kept(place)
    if kept is not None:
        return KnownCosts(_on_this_machine(kept), "kept from an earlier trial")
    found = tried(question)
    if found.problem is not None and found.costs == TYPICAL:
        return typical_costs(program, found.problem)
    if found.problem is None:
        _keep(place, found.costs)
    return KnownCosts(_on_this_machine(found.costs), "measured in a trial", found.problem)


def _on_this_machine(costs: Costs) -> Costs:
    """Return the costs of a program with those of the machine, measured unless they are kept."""
    from dgs.workers.ray_runtime.machine_costs import SCALED, machine_costs

    place = _place("machine")
    found = _kept(place)
    if found is None:
        try:
            found = machine_costs()
        except DgsError:  # a run that needs what is missing here fails soon, and says so
            return costs
        _keep(place, found)
    return replace(costs, **{name: getattr(found, name) for name in SCALED})


def typical_costs(program: Program, problem: str | None = None) -> KnownCosts:
    """Return typical costs for a program."""
    costs = replace(TYPICAL, columns=TYPICAL_COLUMNS) if program.is_vectorised else TYPICAL
    return KnownCosts(costs, "typical", problem)


def _question(
    context: SourceContext, streams: Sequence[StreamConfig], config: ProgramConfig | None
) -> Question | None:
    """Return the question for another process, None without events. Raises whatever the user's sources and objects raise."""
    from dgs.workers.ray_runtime import shipped_trial
    from dgs.workers.sources.sampling import first_events
    from dgs.workers.trial import trial_process

    batches = first_events(streams, context)
    if not batches:
        return None
    if config is None:
        return shipped_trial.question_of(context.program, batches)
    return trial_process.question_of(config, context.base_dir, batches)


def _place(*subject: Any) -> Path:
    """Return the file for the costs of a subject, in a directory of this user on this machine."""
    here = [VERSION, platform.node(), platform.machine(), platform.python_version(), os.cpu_count()]
    digest = hashlib.blake2b(codec.encode([here, *subject]), digest_size=16).hexdigest()
    return Path(tempfile.gettempdir()) / f"dgs-{os.geteuid()}" / "costs" / f"{digest}.json"


def _kept(place: Path) -> Costs | None:
    with suppress(DgsError):
        private_files.refuse_foreign(place)
        return Costs.from_data(read_object(place))
    return None


def _keep(place: Path, costs: Costs) -> None:
    with suppress(OSError, DgsError):
        private_files.make_directory(place.parent.parent)
        private_files.make_directory(place.parent)
        private_files.write(place, json.dumps(costs.as_data()))
