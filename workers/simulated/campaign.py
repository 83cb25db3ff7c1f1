"""Many seeds of one case, and the report on a seed that fails: how to replay it, and the smallest failing input found.

>>> from dgs.model.program import Program
>>> class Total(Program):
...     def init(self): return 0
...     def update(self, state, event, emit):
...         emit(state + event.payload)
...         return state + event.payload
>>> from dgs.model.events import EventBatch
>>> from dgs.model.tags import Tag
>>> batch = EventBatch.of("s", rank=0, tags=[Tag("n")], ts=[1, 5], payload=[10, 20])
>>> simulate_seeds(Case(Total(), {"s": [batch]}), range(10)).runs
10
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from dgs.errors import DgsError
from dgs.model.user_code import shown
from dgs.workers.simulated.case import Case, WrongRunError
from dgs.workers.simulated.faults import KINDS, Faults

LONGEST_SHRINKING = 20.0
"""The seconds for making a failing case smaller."""

SHOWN_ENTRIES = 60
"""The number of last entries of a story to show."""

SHOWN_EVENTS = 20


class SimulationFailed(AssertionError):  # noqa: N818 - pytest shows this name for a failed test
    """The run of a seed is wrong. `problems`: what is wrong. `replay`: the command that repeats the run."""

    def __init__(self, seed: int, replay: str, problems: list[str], smallest: str) -> None:
        super().__init__(seed, replay, problems, smallest)
        self.seed, self.replay, self.problems, self.smallest = seed, replay, problems, smallest

    def __str__(self) -> str:
        told = "\n".join(f"  {problem}" for problem in self.problems[:5])
        more = f"\n  and {len(self.problems) - 5} more" if len(self.problems) > 5 else ""  # noqa: PLR2004 - as shown
        return f"seed {self.seed} failed:\n{told}{more}\nreplay it with: {self.replay}\n{self.smallest}"


@dataclass
class Campaign:
    """The tally of many runs. `ends`: the counts of reasons why generations ended. `refused`: runs that were rightly refused."""

    runs: int = 0
    steps: int = 0
    commits: int = 0
    refused: int = 0
    ends: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        ends = ", ".join(f"{count:,} {why}" for why, count in sorted(self.ends.items())) or "no faults"
        refused = f", {self.refused:,} refused with everything damaged" if self.refused else ""
        return f"{self.runs:,} runs gave the sequential outputs: {self.steps:,} steps, {self.commits:,} checkpoints; {ends}{refused}"


def simulate_seeds(
    case: Case,
    seeds: Iterable[int],
    kinds: tuple[str, ...] = KINDS,
    *,
    replay: Callable[[int], str] = "dgs simulate --seed {}".format,
    progress: Callable[[Campaign], None] = lambda _: None,
) -> Campaign:
    """Run a case under the faults of each seed. Raises SimulationFailed at the first wrong run."""
    done = Campaign()
    for seed in seeds:
        try:
            run = case.check(seed, kinds)
        except WrongRunError as error:
            smallest, wrong = shrunk(case, seed, error)
            raise SimulationFailed(seed, replay(seed), error.problems, told(smallest, wrong)) from error
        done.runs += 1
        done.steps += run.steps
        done.commits += len(run.commits)
        done.refused += run.is_refused
        done.ends += run.ends
        progress(done)
    return done


def shrunk(
    case: Case, seed: int, wrong: WrongRunError, *, seconds: float = LONGEST_SHRINKING
) -> tuple[Case, WrongRunError]:
    """Return a smaller failing case with its error. It greedily leaves out faults, streams, halves of streams, single events."""
    deadline = time.monotonic() + seconds
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for candidate, faults in _smaller(case, wrong.faults):
            if time.monotonic() > deadline:
                return case, wrong
            if (found := _failure(candidate, seed, faults)) is not None:
                case, wrong, is_smaller = candidate, found, True
                break
    return case, wrong


def _failure(case: Case, seed: int, faults: Faults) -> WrongRunError | None:
    try:
        case.check_with(seed, faults)
    except WrongRunError as error:
        return error
    except DgsError:  # without these events even the sequential program fails
        return None
    return None


def _smaller(case: Case, faults: Faults) -> Iterator[tuple[Case, Faults]]:
    """Yield the case with something left out. The possible tags of each stream and the plans stay."""
    yield from ((case, fewer) for fewer in faults.simpler())
    tags = {stream: case.tags_of(stream) for stream in case.streams}
    for stream, batches in case.streams.items():
        sizes = [len(batch) for batch in batches]
        for first, last in _cuts(sum(sizes)):
            kept, start = [], 0
            for batch, size in zip(batches, sizes, strict=True):
                parts = (
                    batch.cut(0, min(max(first - start, 0), size)),
                    batch.cut(min(max(last - start, 0), size), size),
                )
                kept += [part for part in parts if len(part)]
                start += size
            yield replace(case, streams={**case.streams, stream: kept}, tags=tags), faults


def _cuts(count: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of `count` events to leave out: all, then halves, quarters, down to single events."""
    size = count
    while size:
        yield from ((start, min(start + size, count)) for start in range(0, count, size))
        size //= 2


def told(case: Case, wrong: WrongRunError) -> str:
    """Return the case as text, with the problem of its run and the end of its story."""
    lines = [f"the smallest failing input that was found ({wrong.problems[0]}):"]
    for stream, batches in case.streams.items():
        events = [event for batch in batches for event in batch.events()]
        some = ", ".join(
            f"{event.tag!r}@{event.ts} {shown(event.payload)}" for event in events[:SHOWN_EVENTS]
        )
        more = f", and {len(events) - SHOWN_EVENTS} more" if len(events) > SHOWN_EVENTS else ""
        lines.append(f"  {stream}: {some}{more}" if events else f"  {stream}: nothing")
    lines.append(f"faults: {wrong.faults}")
    for number, layout in enumerate(wrong.run.layouts, 1):
        lines.append(f"plan of generation {number}: {layout.plan}")
    lines.append(f"what happened last, until step {wrong.run.steps}:")
    lines += [f"  {line}" for line in wrong.run.story(SHOWN_ENTRIES)]
    return "\n".join(lines)


def seeds_of(count: int, seed: int | None) -> Iterable[int]:
    """Return the seeds to run: the given one, or `count` from 0 on."""
    return range(count) if seed is None else [seed]
