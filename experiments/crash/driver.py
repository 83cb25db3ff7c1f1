"""`python -m experiments.crash.driver PLAN DIRECTORY`: run a plan file and log its notices with their times.

Every line of `story.jsonl` in the directory is a notice to the caller with its time. The last line has the figures of the run.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from dgs.api.preparing import Launch, from_file, prepare
from dgs.api.running import run_job
from dgs.errors import DgsError
from dgs.workers.runtime.job import Caller

STORY = "story.jsonl"


def main(plan: str, directory: str) -> None:
    """Run the plan file."""
    where = Path(directory)

    def tell(**what: Any) -> None:
        with (where / STORY).open("a", encoding="utf-8") as story:
            story.write(json.dumps({"time": time.time(), **what}) + "\n")

    job = Launch(prepare(from_file(plan, {}))).job
    job = replace(job, checkpoint_dir=where / "checkpoints", output_dir=where)
    result = run_job(job, Caller(notify=lambda text: tell(told=text)))
    figures = asdict(result.figures)
    tell(figures={name: figures[name] for name in ("seconds", "restarts", "checkpoints", "events")})


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2])
    except DgsError as error:
        print(f"error[{error.code}]: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
