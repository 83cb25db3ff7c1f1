"""A run that moves to another plan while it goes on: `dgs replan` leaves a plan that was checked, the run takes it up.

The answer, in the control directory of the run beside the plan, says what was wrong with it, if anything was.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgs.errors import DgsError

if TYPE_CHECKING:
    from dgs.api.preparing import Prepared
    from dgs.run_directory import RunDirectory
    from workers.job import Job

ANSWER = ".answer"
"""What the name of the answer to a plan ends with."""


@dataclass
class Moves:
    """Takes up the plans that a run is to move to. `prepared`: the run as it is now."""

    prepared: Prepared
    directory: RunDirectory | None

    def replanned(self, job: Job, path: str) -> Job:
        """Return the job under the plan in a file, and note it in the run directory. Raises InvalidError."""
        try:
            moved = self._under(path)
        except DgsError as error:
            self._answer(path, str(error))
            raise
        self.prepared = moved
        if self.directory is not None:
            self.directory.write_plan(moved.config, moved.plan_data, moved.request.base_dir)
        self._answer(path, None)
        return replace(job, plan=moved.plan)

    def _under(self, path: str) -> Prepared:
        from dgs.plan_file import read_plan_section
        from planner.plan_data import from_data
        from planner.validity import check

        program = self.prepared.program
        plan = from_data(read_plan_section(path), program)
        check(plan, program, self.prepared.topology.impl_tags())
        return replace(self.prepared, plan=plan)

    def _answer(self, path: str, problem: str | None) -> None:
        if self.directory is not None:
            answer = Path(path).with_suffix(ANSWER)
            draft = answer.with_suffix(".draft")
            with suppress(OSError):  # who asked has taken the directory away, and the run goes on
                draft.write_text(json.dumps({"problem": problem}), encoding="utf-8")
                draft.replace(answer)


def answer_to(path: Path) -> dict[str, Any] | None:
    """Return what a run said to the plan that was left for it at `path`, None if it has said nothing yet."""
    try:
        found: dict[str, Any] = json.loads(path.with_suffix(ANSWER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found
