"""Folding twice: with `DGS_VERIFY_COMPILED=1`, the interpreter repeats every thousandth compiled fold on a copy of the state.

A difference is a bug in dgs: the run ends with an InternalError in place of a wrong output.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from dgs import codec
from dgs.errors import CodecError, InternalError
from dgs.model.outputs import OutputBatch
from dgs.model.program import State
from dgs.model.user_code import shown

Fold = Callable[[State, list[OutputBatch]], State]
"""Folds some events, and adds the outputs."""

VARIABLE = "DGS_VERIFY_COMPILED"
EVERY = 1000
"""One in so many compiled folds is done twice."""


class VerifiedFolds:
    """Does compiled folds, and some of them twice. `is_on`: whether the variable is set."""

    def __init__(self) -> None:
        self.is_on = os.environ.get(VARIABLE, "") not in ("", "0")
        self._count = 0

    def fold(self, compiled: Fold, interpreted: Fold, state: State, outputs: list[OutputBatch]) -> State:
        """Return the state after a compiled fold; add its outputs. Raises InternalError if the interpreter does something else."""
        self._count += 1
        if not self.is_on or self._count % EVERY:
            return compiled(state, outputs)
        try:
            copy = codec.decode(codec.encode(state, keeps_order=True))
        except CodecError:
            return compiled(state, outputs)
        made: list[OutputBatch] = []
        wanted: list[OutputBatch] = []
        after, expected = compiled(state, made), interpreted(copy, wanted)
        for what, one, other in (
            ("the state differs", after, expected),
            ("the outputs differ", _in_order(made), _in_order(wanted)),
        ):
            if _differ(one, other):
                problem = f"of a compiled fold {what}: {shown(one)} where `update` gives {shown(other)}; `compile: off` is not affected"
                raise InternalError(problem=problem)
        outputs += made
        return after


def _differ(one: Any, other: Any) -> bool:
    """Return whether two values differ in a bit. Objects that the codec cannot encode were only passed on, and are not compared."""
    try:
        return codec.encode(one) != codec.encode(other)
    except CodecError:
        return False


def _in_order(outputs: list[OutputBatch]) -> list[Any]:
    """Return outputs by their ids."""
    found = [
        (one.rank, seq, index, value)
        for one in outputs
        for seq, index, value in zip(
            np.asarray(one.seq).tolist(), np.asarray(one.index).tolist(), one.to_list(), strict=True
        )
    ]
    return sorted(found, key=lambda output: output[:3])
