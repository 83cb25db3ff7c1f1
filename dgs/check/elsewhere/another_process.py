"""The program in another process: a fresh interpreter with another hash seed, at another time.

It runs a history and answers with the result. Everything that the result must not depend on is different there: the order of
sets of texts, `hash`, `id`, the process's number, the clocks, the time zone, and state kept in modules and objects.

The other process is `python -m dgs.check.elsewhere.another_process`. Questions and answers are codec bytes, each after its length.
The codec changes the program's attributes (it sorts dicts). The copy `here` has the same changes, so they make no difference.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cached_property
from pathlib import Path
from threading import Timer
from typing import Any, BinaryIO

from dgs import codec
from dgs.check.elsewhere.shifted_clock import move_clocks
from dgs.check.scenarios.reachable import reached
from dgs.check.scenarios.scenario import Scenario
from dgs.check.scenarios.world import NotThere, UserRaised, World
from dgs.errors import CodecError, DgsError
from dgs.errors.shortened import shown_module
from dgs.job.loading import load_callable
from dgs.model.program import Program

HASH_SEED, OTHER_HASH_SEED = "1", "15"
"""With the first seed the hashes of "a", "b" and "c" are all odd, with the second all even. One of the two differs from here."""

LONGEST = 60.0
"""Seconds in which an answer must come. The first one needs all imports."""

TIME_ZONE = "DGS-13:47"
"""A zone whose time of day always differs from here. Hosts may be anywhere, or set to UTC."""

INSIDE = "DGS_CHECK_ANOTHER_PROCESS"
"""The variable that is set in the process, so that a module that checks its programs on import does not start processes without end."""


class AnotherProcess:
    """A process with a copy of a program. If it fails, all later calls raise the reason. Close it in the end."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.here = World(program, (), {})
        self._process: subprocess.Popen[bytes] | None = None
        self._problem: str | None = None

    def close(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def start(self) -> None:
        """Start the process, if it is not running, and make the program there. Raises NotThere, also after a failure."""
        if self._problem is not None:
            raise NotThere(self._problem)
        if self._process is None:
            try:
                where = _whereabouts(self._program)
                self.here = _world(
                    load_callable(where[0], Path.cwd()) if where[2] else type(self._program), *where[1:]
                )
                self._process = _started()
                self._problem = self._asked(codec.encode(where))
            except (NotThere, OSError) as error:
                self._problem = str(error)
            self.start()

    def reached(self, scenario: Scenario) -> tuple[Any, list[list[Any]]]:
        """Return the state that the steps lead to there, and the outputs of each event. Raises NotThere, UserRaised."""
        self.start()
        try:
            answer, *content = self._asked(codec.encode(scenario.to_data(), keeps_order=True))
        except (NotThere, CodecError) as error:
            answer, content = "cannot", [str(error)]
        if answer == "raised":
            raise UserRaised(content[0], RuntimeError(content[1]))
        if answer == "state":
            state, trace = content
            return state, trace
        self._problem = str(content[0])
        raise NotThere(self._problem)

    def _asked(self, question: bytes) -> Any:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise NotThere("the other process has not been started")
        hanging = Timer(LONGEST, process.kill)
        hanging.start()
        try:
            _write(process.stdin, question)
            answer = _read(process.stdout)
        except OSError:
            answer = None
        finally:
            hanging.cancel()
        if answer is None:
            raise NotThere(f"the other process has ended, or gave no answer in {LONGEST:g} s")
        return codec.decode(answer)


def _started() -> subprocess.Popen[bytes]:
    """Start the process with our module path, and with -P, so that the working directory does not hide installed modules."""
    if INSIDE in os.environ:
        raise NotThere("this is another process already")
    return subprocess.Popen(  # noqa: S603 - ourselves
        [sys.executable, "-P", "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={
            **os.environ,
            INSIDE: "1",
            "PYTHONHASHSEED": OTHER_HASH_SEED if all(hash(text) & 1 for text in "abc") else HASH_SEED,
            "TZ": TIME_ZONE,
            "PYTHONPATH": os.pathsep.join(one for one in sys.path if isinstance(one, str)),
        },
    )


def _whereabouts(program: Program) -> list[Any]:
    """Return how another process makes a program: a reference, data, and whether the reference is a function that takes the data.

    Otherwise it is the program's class, and the data are the instance's attributes. Raises NotThere.
    """
    if program.made_by is not None:
        ref, arguments = program.made_by
        try:
            return [ref, codec.encode(dict(arguments)), True]
        except CodecError as error:
            raise NotThere(f"what makes the program cannot be sent: {error}") from None
    cls = type(program)
    module = sys.modules.get(cls.__module__)
    file = getattr(module, "__file__", None)
    found: Any = module
    for part in cls.__qualname__.split("."):
        found = getattr(found, part, None)
    if found is not cls or file is None or cls.__module__ == "__main__":
        raise NotThere(
            f"another process cannot import {cls.__qualname__} from {shown_module(cls.__module__)}"
        )
    own = {
        name: value
        for name, value in {**vars(program), **_in_slots(program)}.items()
        if not isinstance(getattr(cls, name, None), cached_property)
        and name != "front"  # a module has no state to compare
    }
    source = file if cls.__module__.startswith("dgs_file_") else cls.__module__
    try:
        return [f"{source}:{cls.__qualname__}", codec.encode(own), False]
    except CodecError as error:
        raise NotThere(f"what is on the program itself cannot be sent: {error}") from None


def _world(found: Any, own: bytes, is_maker: bool) -> World:
    if is_maker:
        return World(found(**codec.decode(own)), (), {})
    program = object.__new__(found)
    for name, value in codec.decode(own).items():
        object.__setattr__(program, name, value)
    return World(program, (), {})


def _in_slots(program: Program) -> dict[str, Any]:
    state = object.__getstate__(program)
    return state[1] if isinstance(state, tuple) else {}


def _write(to: Any, data: bytes) -> None:
    to.write(len(data).to_bytes(8, "big") + data)
    to.flush()


def _read(source: Any) -> bytes | None:
    size = source.read(8)
    data: bytes = source.read(int.from_bytes(size, "big"))
    return data if size else None


def answer_questions(source: BinaryIO, to: BinaryIO) -> None:
    """Answer questions about one program until there are no more. The first question names the program."""
    question = _read(source)
    if question is None:
        return
    ref, own, is_maker = codec.decode(question)
    try:
        world = _world(load_callable(ref, Path.cwd()), own, is_maker)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, the program cannot be made here
        _write(to, codec.encode(str(error) if isinstance(error, DgsError) else repr(error)))
        return
    _write(to, codec.encode(None))
    while (question := _read(source)) is not None:
        _write(to, _answer(world, Scenario.from_data(codec.decode(question))))


def _answer(world: World, scenario: Scenario) -> bytes:
    trace: list[list[Any]] = []
    try:
        _, state = reached(world, scenario.steps, trace)
        return codec.encode(["state", state, trace], keeps_order=True)
    except UserRaised as raised:
        return codec.encode(["raised", raised.function, raised.error])
    except CodecError as error:
        return codec.encode(["cannot", str(error)])


def main() -> None:
    """Answer on the standard output. User code's prints are dropped, and its standard input is empty."""
    source, to = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    move_clocks()
    answer_questions(source, to)


if __name__ == "__main__":
    main()
