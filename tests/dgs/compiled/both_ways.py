"""Runs of a program by Python and by compiled loops, and an equality that sees every bit.

A loop is translated in two ways: by LLVM, and by Python itself with the checked operations written out. Python
needs no time to compile, so most random programs are translated by it: they test the lowering.
"""

import linecache
import math
import struct
from dataclasses import asdict, is_dataclass, replace
from itertools import count

import numpy as np
import pytest

import dgs
from dgs.compiled import compiled_update, python_loops
from dgs.compiled.compiled_update import CompiledUpdate
from dgs.model import columns
from dgs.model.events import EventBatch
from dgs.workers.protocol.folding.fold import Folder

NUMBERS = count()


def by_python(loop, change=lambda text: text, **operations):
    """Return a loop as a Python function. `change` and `operations`: the differences of a mutant."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(python_loops, "OPERATIONS", {**python_loops.OPERATIONS, **operations})
        return python_loops.python_loop(replace(loop, text=change(loop.text)))


def program_of(text):
    """Return an object of the class `P` in a text. Python can find its source. `A`, `B`: kinds."""
    name = f"<program {next(NUMBERS)}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    space = {"dgs": dgs, "math": math, "A": dgs.kind("a"), "B": dgs.kind("b"), "__name__": __name__}
    exec(compile(text, name, "exec", dont_inherit=True), space)
    return space["P"]()


def exact(value):
    """Return a form of a value that is equal only for the same bits: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if isinstance(value, float):
        return "float", "nan" if math.isnan(value) else struct.pack("<d", value)
    if isinstance(value, dict):
        return "dict", tuple((name, exact(one)) for name, one in value.items())
    if is_dataclass(value):
        return type(value), exact(vars(value) if hasattr(value, "__dict__") else asdict(value))
    if isinstance(value, (tuple, list)):
        return type(value).__name__, tuple(map(exact, value))
    return type(value).__name__, hex(value) if isinstance(value, int) else repr(value)  # of any length


def interpreted(program, batch, state):
    """Return the state and the outputs of each event, or the exception and the number of its event. The oracle."""
    outputs = []
    for number, event in enumerate(batch.events()):
        got = []
        try:
            state = program.update(state, event, got.append)
        except Exception as error:  # noqa: BLE001 - whatever it is
            return type(error).__name__, str(error), number
        outputs.append(exact(got))
    return exact(state), outputs


class Compiled:
    """A program as compiled loops, made by `translate`. `update`: the compiled update, with its counters."""

    def __init__(self, program, translate=by_python):
        loop = Folder(program, program.states()[0], "w")._loop
        self.update = CompiledUpdate(program.states()[0].update, loop.fold_batch, translate=translate)

    def fold(self, batch, state, cuts=()):
        """Return the same as `interpreted`. `cuts`: the rows where the batch is cut."""
        made, start = [], 0
        try:
            for stop in (*cuts, len(batch)):
                state = self.update.fold(state, batch.cut(start, stop), made)
                start = stop
        except dgs.DgsError as error:
            return error.error.partition(": ")[0], error.error.partition(": ")[2], error.seq
        outputs = [[] for _ in range(len(batch))]
        for one in made:
            assert len(one.index) == len(one.to_list())
            for seq, index, value in zip(
                np.asarray(one.seq).tolist(), one.index.tolist(), one.to_list(), strict=True
            ):
                assert index == len(outputs[seq])
                outputs[seq].append(value)
        return exact(state), [exact(one) for one in outputs]


def batch_of(payload, *, tags=None, codes=None):
    """Return a batch of events of kind `a`, or of these tags."""
    size = columns.length(payload) if codes is None else len(codes)
    return EventBatch.of(
        "s", rank=0, tags=tags or [dgs.Tag("a")], ts=range(size), codes=codes, payload=payload
    )


def without_limit(monkeypatch):
    """Allow any number of deviations in a batch."""
    monkeypatch.setattr(compiled_update, "MOST_DEVIATIONS", 10**9)


def differing(writer, start, translate=by_python):
    """Return whether a random program behaves differently when compiled, its text, and the compiled update."""
    text = writer.program()
    program = program_of(text)
    compiled = Compiled(program, translate)
    for _ in range(4):
        batch, cuts = writer.batch()
        if compiled.fold(batch, start, cuts) != interpreted(program, batch, start):
            return True, text, compiled.update
    return False, text, compiled.update
