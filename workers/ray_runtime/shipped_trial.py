"""The trial of a program that only this process has, such as one of a script or a notebook: it is pickled as Ray does it for the hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dgs.model.events import EventBatch
from dgs.model.program import Program
from dgs.workers.trial.trial_process import Question, answer


def question_of(program: Program, batches: Sequence[EventBatch], sinks: Sequence[str]) -> Question:
    """Return the question about a program. Raises whatever the user's objects raise when they are pickled."""
    from dgs.workers.ray_runtime.cluster import secure_environment

    secure_environment()
    from ray import cloudpickle

    pickle: Any = cloudpickle
    content: bytes = pickle.dumps((program, list(batches), sinks))
    return Question(__name__, content, content)


def main() -> None:
    """Answer the question on the standard input."""
    from ray import cloudpickle

    answer(cloudpickle.loads)


if __name__ == "__main__":
    main()
