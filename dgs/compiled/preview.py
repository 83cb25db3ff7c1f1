"""A preview of how `update` folds the first events of streams: compiled or interpreted, and why. Nothing is compiled for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dgs.compiled.compiled_update import CompiledUpdate
from dgs.compiled.loop_files import is_available
from dgs.compiled.lowering.value_types import Refusal
from dgs.compiled.python_loops import python_loop
from dgs.errors import MissingPackageError
from dgs.errors.resources import CompileError
from dgs.model.events import EventBatch, declared_stream
from dgs.model.program import Program
from dgs.model.user_code import UserCode


@dataclass(frozen=True, slots=True)
class Way:
    """The way in which some kinds of events of a stream are folded. `refusal`: why they are interpreted, None if they are compiled.

    `state`: the type of its states, if it is compiled.
    """

    stream: str
    kinds: tuple[str, ...]
    state: str
    refusal: Refusal | None

    def __str__(self) -> str:
        what = f"{', '.join(self.kinds)} of stream {self.stream!r}"
        if self.refusal is None:
            return f"{what}: compiled, states are {self.state}"
        return f"{what}: interpreted: {self.refusal}"


def ways(program: Program, batches: Sequence[EventBatch]) -> list[Way]:
    """Return how `update` folds the first events of streams. Raises UserCodeError if `init` raises."""
    first = program.states()[0]
    update = CompiledUpdate(first.update, lambda state, _batch, _outputs: state, translate=python_loop)
    state = UserCode(program).call("init", program.init)
    found: dict[tuple[str, tuple[str, ...]], Way] = {}
    for batch in batches:
        text = update.text(state, batch)
        kinds = tuple(dict.fromkeys(str(tag.kind) for tag in batch.tags))
        refusal, state_type = (text, "") if isinstance(text, Refusal) else (None, repr(text.state))
        stream = declared_stream(batch.stream)
        found[stream, kinds] = Way(stream, kinds, state_type, refusal)
    return list(found.values())


def check_compiled(program: Program, batches: Sequence[EventBatch]) -> None:
    """Check that `update` is compiled for the first events of streams. Raises CompileError, MissingPackageError."""
    if not is_available():
        raise MissingPackageError(feature="`compile: require`", package="llvmlite")
    for way in ways(program, batches):
        if way.refusal is not None:
            raise CompileError(program=program.name, kind=", ".join(way.kinds), problem=str(way.refusal))
