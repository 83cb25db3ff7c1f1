"""A program without its vectorised methods, for comparing the two: it processes event by event.

>>> from dgs.model.program import Program
>>> class Count(Program):
...     def init(self): return 0
...     def update(self, state, event, emit): return state + 1
...     def update_batch(self, state, batch, emit_batch): return state + len(batch)
>>> program = Count()
>>> program.is_vectorised, without_batches(program).is_vectorised, without_batches(program).name
(True, False, 'Count')
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from dgs.model.program import Program, StateType

VECTORISED = tuple(name for name in ("update_batch", "update_windows") if hasattr(Program, name))
"""The optional methods that process many events at a time."""


def without_batches(program: Program) -> Program:
    """Return a copy of the program that is an instance of a subclass without the vectorised methods."""
    kind = type(program)

    def states(self: Program) -> tuple[StateType, ...]:
        return tuple(replace(state, update_batch=None) for state in kind.states(self))

    names: dict[str, Any] = {name: getattr(Program, name) for name in VECTORISED}
    if kind.states is not Program.states:  # a program with states of its own does not accumulate
        names["states"] = states
    slower = copy.copy(program)
    slower.__class__ = type(kind.__name__, (kind,), {**names, "__module__": kind.__module__})
    return slower
