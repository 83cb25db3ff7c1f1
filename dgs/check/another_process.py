"""The program in another process: a fresh interpreter with another hash seed, at another time.

It is asked for what a history leads to. What the answers must not depend on is different there: the order of sets of texts,
`hash`, `id`, the process's number, the clocks, what modules and objects remember.

The other process is `python -m dgs.check.another_process`; questions and answers are codec bytes, each after its length.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from dgs import codec
from dgs.check.reachable import reached
from dgs.check.scenario import Scenario
from dgs.check.shifted_clock import move_clocks
from dgs.check.world import UserRaised, World
from dgs.errors import CodecError, DgsError
from dgs.loading import load_callable
from dgs.program import Program

HASH_SEEDS = (1, 13, 12, 11, 17, 41, 0, 15)
"""Under seed number i the last bits of hash("a"), hash("b"), hash("c") are those of 7 - i."""


class NotThere(Exception):  # noqa: N818 - an answer, not an error
    """The program cannot be run in another process: why."""


class AnotherProcess:
    """A process with a copy of a program, to be closed in the end. Raises NotThere if the program cannot be made there."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def start(self) -> None:
        """Start the process, if it does not run, and make the program there. Raises NotThere."""
        if self._process is not None:
            return
        where = _whereabouts(self._program)
        self._process = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={
                **os.environ,
                "PYTHONHASHSEED": str(_other_hash_seed()),
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
        )
        problem = self._asked(codec.encode(where))
        if problem is not None:
            raise NotThere(problem)

    def reached(self, scenario: Scenario) -> tuple[Any, list[list[Any]]]:
        """Return the state that the steps lead to there, and the outputs of each event. Raises NotThere, UserRaised."""
        self.start()
        answer, *content = self._asked(codec.encode(scenario.to_data()))
        if answer == "raised":
            raise UserRaised(content[0], RuntimeError(content[1]))
        if answer == "state":
            state, trace = content
            return state, trace
        raise NotThere(content[0])

    def _asked(self, question: bytes) -> Any:
        if self._process is None or self._process.stdin is None or self._process.stdout is None:
            raise NotThere("the other process has not been started")
        try:
            _write(self._process.stdin, question)
        except OSError:
            raise NotThere("the other process has ended") from None
        answer = _read(self._process.stdout)
        if answer is None:
            raise NotThere("the other process has ended")
        return codec.decode(answer)


def _other_hash_seed() -> int:
    return HASH_SEEDS[sum((hash(text) & 1) << place for place, text in enumerate("abc"))]


def _whereabouts(program: Program) -> list[Any]:
    """Return where another process finds a program's class, and what is on the instance. Raises NotThere."""
    cls = type(program)
    module = sys.modules.get(cls.__module__)
    file = getattr(module, "__file__", None)
    found: Any = module
    for part in cls.__qualname__.split("."):
        found = getattr(found, part, None)
    if found is not cls or file is None or cls.__module__ == "__main__":
        raise NotThere(f"another process cannot import {cls.__qualname__} from {cls.__module__}")
    own = {
        name: value
        for name, value in vars(program).items()
        if not isinstance(getattr(cls, name, None), cached_property)
    }
    source = file if cls.__module__.startswith("dgs_file_") else cls.__module__
    try:
        codec.encode(own)
    except CodecError as error:
        raise NotThere(f"what is on the program itself cannot be sent: {error}") from None
    return [f"{source}:{cls.__qualname__}", own]


def _write(to: Any, data: bytes) -> None:
    to.write(len(data).to_bytes(8, "big") + data)
    to.flush()


def _read(source: Any) -> bytes | None:
    size = source.read(8)
    data: bytes = source.read(int.from_bytes(size, "big"))
    return data if size else None


def answer_questions(source: BinaryIO, to: BinaryIO) -> None:
    """Answer questions about one program until there are no more; the first one says which program."""
    question = _read(source)
    if question is None:
        return
    ref, own = codec.decode(question)
    try:
        cls = load_callable(ref, Path.cwd())
    except DgsError as error:
        _write(to, codec.encode(str(error)))
        return
    program = object.__new__(cls)
    vars(program).update(own)
    world = World(program, (), {})
    _write(to, codec.encode(None))
    while (question := _read(source)) is not None:
        _write(to, _answer(world, Scenario.from_data(codec.decode(question))))


def _answer(world: World, scenario: Scenario) -> bytes:
    trace: list[list[Any]] = []
    try:
        _, state = reached(world, scenario.steps, trace)
        return codec.encode(["state", state, trace])
    except UserRaised as raised:
        return codec.encode(["raised", raised.function, raised.error])
    except CodecError as error:
        return codec.encode(["cannot", str(error)])


def main() -> None:
    """Answer on the standard output; what user code prints goes nowhere."""
    to = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    move_clocks()
    answer_questions(sys.stdin.buffer, to)


if __name__ == "__main__":
    main()
