"""The law that a flow does the same elsewhere: in a fresh interpreter with another hash seed, at another time, in another time zone.

Here and there the flow is made anew, and a program, `Meaning`, gives the blocks of each step for an input. The first step whose blocks
differ is the mistake.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dgs import codec
from dgs.check.elsewhere.another_process import AnotherProcess
from dgs.check.flows.kept_outside import KeptOutside
from dgs.check.flows.trials import Trial, needs_order, same, told
from dgs.check.scenarios.reachable import reached
from dgs.check.scenarios.scenario import Scenario
from dgs.check.scenarios.world import NotThere, UserRaised
from dgs.errors import CodecError
from dgs.errors.shortened import shown_module
from dgs.flow.definition import Flow
from dgs.flow.denotation import Block, Denotation, Item
from dgs.flow.flow_graph import Node
from dgs.flow.mistakes import Mistake
from dgs.flow.steps import Into, Sort
from dgs.job.loading import load_flow
from dgs.job.schema import ProgramConfig
from dgs.model.events import Event
from dgs.model.program import Program
from dgs.model.tags import kind

INPUT = kind("input")

FIX = (
    "Look for a clock or a date (take the time of the item), the time zone of the host, `hash` of texts or `id`, "
    "the order of a set (sort it), and what the process keeps"
)


class Home(NamedTuple):
    """The place where another process finds a flow: a reference, its arguments, and the folder that a file is relative to."""

    ref: str
    args: Mapping[str, Any]
    base_dir: Path


class Meaning(Program):
    """A program that puts out the blocks of each step of a flow, in codec bytes, for an input."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._kept = KeptOutside(node.step for node in flow.graph.nodes)

    def init(self) -> None:
        """Return nothing: inputs have nothing to do with each other."""

    def update(self, state: None, event: Event, emit: Any) -> None:  # noqa: ARG002 - the contract
        """Put out the blocks of each node, None for those that the codec does not carry."""
        self._kept.put_back()
        meaning = Denotation(self._flow.graph, self._flow.checked.types, event.payload)
        for node in self._flow.graph.nodes:
            emit(None if isinstance(node.step, Into) else _carried(meaning.blocks(node)))


def _carried(blocks: list[Block]) -> bytes | None:
    try:
        return codec.encode(
            [[[item.key, item.value, item.at] for item in block] for block in blocks], keeps_order=True
        )
    except CodecError:
        return None


def meaning_of(ref: str, args: Mapping[str, Any], base_dir: str) -> Meaning:
    """Return the meaning of a flow that a reference names."""
    return Meaning(load_flow(ProgramConfig(ref=ref, args=dict(args)), Path(base_dir)))


class ElsewhereLaw:
    """The law for one flow. It has another process, which ends with `close`."""

    def __init__(self, flow: Flow, home: Home | None) -> None:
        program = Meaning(flow)
        self._name, self._process, self.missing = flow.name, AnotherProcess(program), ""
        self._asked = 0
        try:
            where = home_of(flow) if home is None else home
        except NotThere as reason:
            self.missing = str(reason)
            return
        arguments = {"ref": where.ref, "args": dict(where.args), "base_dir": str(where.base_dir)}
        program.made_by = (f"{__name__}:{meaning_of.__name__}", arguments)

    def close(self) -> None:
        """End the other process."""
        self._process.close()

    def __call__(self, trial: Trial) -> Iterator[Mistake]:
        """F21: each step gives the same in another process. Both sides get values that the codec has carried.

        The other process gets every second input only. So a step that numbers what it has seen gives other numbers there.
        """
        if self.missing:
            return
        try:
            self._process.start()
        except NotThere as reason:
            self.missing = str(reason)
            return
        self._asked += 1
        rows = {name: [list(pair) for pair in pairs] for name, pairs in trial.inputs.items()}
        steps = (Event(INPUT(), "input", 0, rows),)
        there, here = list[list[Any]](), list[list[Any]]()
        try:
            data = codec.decode(codec.encode(Scenario(steps).to_data(), keeps_order=True))
            reached(self._process.here, Scenario.from_data(data).steps, here)
        except (CodecError, UserRaised):  # its values are not those of the input any more
            return
        if self._asked % 2 == 0:
            return
        try:
            _, there = self._process.reached(Scenario(steps))
        except NotThere:
            return
        except UserRaised as error:
            problem = f"raises in another process only: {error.args[1]}"
            yield Mistake("F21", f"flow {self._name!r}", problem, fix=FIX)
            return
        yield from _differences(trial, here[0], there[0])


def _differences(trial: Trial, here: list[Any], there: list[Any]) -> Iterator[Mistake]:
    """Yield the mistake of the first step that gives something else there."""
    shown_later = _orders_that_matter(trial)
    for node, one, other in zip(trial.graph.nodes, here, there, strict=True):
        if one is None or other is None:
            continue
        sides = _blocks(one), _blocks(other)
        if not same(trial, node in shown_later, *sides):
            problem = "gives something else in another process, with another hash seed at another time"
            yield trial.mistake("F21", node, problem, told(sides[0]), told(sides[1]), FIX)
            return


def _orders_that_matter(trial: Trial) -> set[Node]:
    """Return the nodes on whose order of items a later step depends."""
    found: set[Node] = set()
    for node in reversed(trial.graph.nodes):
        if trial.types[node].order == "O":
            readers = list(trial.graph.readers(node))
            if any(
                needs_order(trial, one) or (one in found and not isinstance(one.step, Sort))
                for one in readers
            ):
                found.add(node)
    return found


def _blocks(data: bytes) -> list[Block]:
    return [[Item(key, value, at, ()) for key, value, at in block] for block in codec.decode(data)]


def home_of(flow: Flow) -> Home:
    """Return where another process finds a flow: by its name in the module of its function. Raises NotThere."""
    module = sys.modules.get(name := flow.module)
    file = getattr(module, "__file__", None)
    found = (
        next((one for one, given in vars(module).items() if flow.has_function_of(given)), None)
        if module
        else None
    )
    if found is None or file is None or name == "__main__":
        raise NotThere(f"another process cannot import flow {flow.name!r} from {shown_module(name)}")
    source = file if name.startswith("dgs_file_") else name
    return Home(f"{source}:{found}", flow.arguments, Path.cwd())
