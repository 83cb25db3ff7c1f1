"""A program under random plans, without faults, and the report on a plan with wrong outputs, made small."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

from dgs.model.events import EventBatch
from dgs.model.outputs import OutputBatch
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag
from dgs.model.user_code import shown
from dgs.planner.drawing.text import as_text
from dgs.planner.plan import Plan
from dgs.workers.simulated.campaign import shrunk
from dgs.workers.simulated.case import Case, WrongRunError
from dgs.workers.simulated.faults import NO_FAULTS
from dgs.workers.simulated.oracles import OutputId, Truth, output_rows
from dgs.workers.simulated.result import Simulated

Streams = Mapping[str, Sequence[EventBatch]]

SHOWN = 5
"""The number of differing outputs to show."""

SHOWN_EVENTS = 20
"""The number of events of a stream to show."""

LONGEST_SHRINKING = 10.0
"""The seconds for making a failing case smaller."""

SMALL_PLANS = ((2, False),) * 10 + ((2, True),) * 8 + ((3, True),) * 8
"""Plans to try in place of a large one that has failed: the most leaves, and whether streams are split."""


class OutputsOnly(Case):
    """A case judged by its outputs only. So a smaller case must still have wrong outputs."""

    def problems(self, run: Simulated) -> Iterator[str]:
        """Yield the differing outputs, in the order of their events."""
        yield from _differing(self.truth, list(self.streams), run.outputs)


class PlanFailed(AssertionError):  # noqa: N818 - pytest shows this name for a failed test
    """Under a plan, a program does not give the sequential outputs. `plan` and the `streams` of `case` are small."""

    def __init__(self, seed: int, plan: Plan, case: Case, differences: list[str]) -> None:
        super().__init__(seed, plan, case, differences)
        self.seed, self.plan, self.case, self.differences = seed, plan, case, differences

    def __str__(self) -> str:
        more = len(self.differences) - SHOWN
        lines = ["the program does not give the sequential outputs under this plan:"]
        lines += [f"  {line}" for line in as_text(self.plan).splitlines()]
        lines += ["for these events:", *_events(self.case), "what differs:"]
        lines += [f"  {difference}" for difference in self.differences[:SHOWN]]
        lines += [f"  and {more} more"] if more > 0 else []
        return "\n".join([*lines, f"replay it with: dgs.testing.run_plans(..., 1, seed={self.seed})"])


@dataclass(frozen=True, slots=True)
class Trials:
    """A summary of the runs: the numbers of runs and of different plans, and the workers of the smallest and the largest plan."""

    runs: int
    plans: int
    fewest: int
    most: int

    def __str__(self) -> str:
        if self.most <= 1:
            return f"{self.runs:,} runs under random plans gave the sequential outputs; every plan had one worker only"
        sizes = f"{self.plans:,} different plans, {self.fewest} to {self.most} workers"
        return f"{self.runs:,} runs under random plans gave the sequential outputs: {sizes}"


def try_plans(case: Case, count: int, seed: int = 0) -> Trials:
    """Run a case under `count` random plans and delivery orders, from `seed` on. Raises PlanFailed at the first wrong run."""
    shapes: dict[str, int] = {}
    for number in range(seed, seed + count):
        case.layout = case.random_layout(random.Random(f"plan {number}"))  # noqa: S311 - reproducible
        shapes[as_text(case.layout.plan)] = len(case.layout.plan)
        if (wrong := _failure(case, number)) is not None:
            small, found = _smallest(case, number, wrong)
            plan = small.layout.plan if small.layout else case.layout.plan
            raise PlanFailed(number, plan, small, found.problems)
    return Trials(count, len(shapes), min(shapes.values(), default=0), max(shapes.values(), default=0))


def _failure(case: Case, seed: int) -> WrongRunError | None:
    try:
        case.check_with(seed, NO_FAULTS)
    except WrongRunError as error:
        return error
    return None


def _smallest(case: Case, seed: int, wrong: WrongRunError) -> tuple[Case, WrongRunError]:
    """Return a smaller failing case, if there is one: with fewer events, a smaller plan, and no streams without events."""
    occurring = {
        stream: TagSet.of(*(tag for batch in batches for tag in batch.tags))
        for stream, batches in case.streams.items()
    }
    outputs = OutputsOnly(case.program, case.streams, case.tags, case.layout, case.tolerance)
    if wrong.run is not None and (problems := list(outputs.problems(wrong.run))):
        case, wrong = outputs, WrongRunError(problems, wrong.run, NO_FAULTS)
    case, wrong = shrunk(case, seed, wrong, seconds=LONGEST_SHRINKING / 2)
    left = [(stream, batches) for stream, batches in case.streams.items() if any(map(len, batches))]
    few = {
        stream: [replace(batch, rank=rank) for batch in batches]
        for rank, (stream, batches) in enumerate(left)
    }
    # the failure may need a key without outputs
    kept: list[tuple[Streams, Mapping[str, TagSet]]] = [(few, {}), (case.streams, occurring)]
    for number, ((streams, tags), (leaves, is_split)) in enumerate(product(kept, SMALL_PLANS)):
        small = type(case)(case.program, streams, tags, tolerance=case.tolerance)
        rnd = random.Random(f"small {number}")  # noqa: S311 - reproducible
        small.layout = small.random_layout(rnd, leaves, is_split=is_split)
        if (found := _failure(small, number)) is not None:
            return shrunk(small, number, found, seconds=LONGEST_SHRINKING / 2)
    return case, wrong


def _differing(truth: Truth, streams: list[str], outputs: list[OutputBatch]) -> Iterator[str]:
    got: dict[OutputId, list[tuple[Tag, Any]]] = {}
    for batch in outputs:
        for one, tag, value in output_rows(batch):
            got.setdefault(one, []).append((tag, value))
    for one in sorted(truth.outputs.keys() | got.keys()):
        wanted = truth.outputs.get(one)
        values = [value for _, value in got.get(one, [])]
        if wanted is not None and len(values) == 1 and truth.is_same_value(values[0], wanted[1]):
            continue
        tag, _ = wanted or got[one][0]
        where = f"row {one.seq} of stream {streams[one.rank]!r} at {one.ts}"
        told = " and ".join(map(shown, values)) or "nothing"
        expected = "nothing" if wanted is None else shown(wanted[1])
        yield f"output {one.index} of {tag!r}, {where}: {told}, sequentially {expected}"


def _events(case: Case) -> Iterator[str]:
    for stream, batches in case.streams.items():
        events = [event for batch in batches for event in batch.events()]
        some = [f"{event.tag!r}@{event.ts} {shown(event.payload)}" for event in islice(events, SHOWN_EVENTS)]
        more = [f"and {len(events) - SHOWN_EVENTS} more"] if len(events) > SHOWN_EVENTS else []
        yield f"  {stream}: {', '.join([*some, *more]) or 'nothing'}"
