"""A program with its input, run under the faults of a seed, and judged."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from dgs import codec
from dgs.errors import DgsError, OutOfOrderError
from dgs.model.events import EventBatch
from dgs.model.program import Program
from dgs.model.tag_sets import TagSet
from dgs.planner.optimizers import by_name
from dgs.planner.topology import Machine, Stream, Topology
from dgs.workers.simulated.faults import KINDS, Faults, fault_kinds
from dgs.workers.simulated.layout import Layout, impl_streams
from dgs.workers.simulated.oracles import Truth, out_of_order, went_back, wrong_outputs, wrong_state
from dgs.workers.simulated.result import Simulated
from dgs.workers.simulated.simulation import OnError, Simulation
from dgs.workers.simulated.sources import BLOCK
from dgs.workers.simulated.user_code import Poison, with_fuse

__all__ = ["Case", "WrongRunError", "fault_kinds"]

SPLITS = (1, 1, 2, 3)
"""Numbers of splits of a stream, to draw from."""

COMMON_SPLITS = 6
"""A multiple of all of them."""

MOST_LAYOUTS = 6
"""At most this many plans are made for a case, because making a plan takes longer than a run."""

SMALL_BUFFER = 200
"""Bytes for a few events only, so that R11 decides which source is read."""

CALM_STEPS = 1000
CALM_STEPS_PER_EVENT = 150
"""The steps, plus as many for each event, that a run may need after the last fault (G4)."""


class WrongRunError(Exception):
    """A run is wrong. `problems`: what is wrong. `run`: its result."""

    def __init__(self, problems: Sequence[str], run: Simulated, faults: Faults) -> None:
        super().__init__(problems[0])
        self.problems, self.run, self.faults = list(problems), run, faults


@dataclass
class Case:
    """A program and the events of each stream in rank order.

    `tags`: the possible tags of each stream (default: those of its events). `layout`: the plan of all generations; None: each generation
    has a random one. `tolerance`: the allowed difference of floats. `validates`: hosts and workers check themselves after every step.
    `skips`: events at which `update` raises are left out.
    """

    program: Program
    streams: Mapping[str, Sequence[EventBatch]]
    tags: Mapping[str, TagSet] = field(default_factory=dict)
    layout: Layout | None = None
    tolerance: float | None = None
    validates: bool = False
    skips: bool = False
    _layouts: dict[int, Layout] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def truth(self) -> Truth:
        """The outcome of the sequential program. Raises UserCodeError if that raises."""
        return self._truth_of(self.streams)

    def _truth_of(self, streams: Mapping[str, Sequence[EventBatch]]) -> Truth:
        on_error: OnError = "skip" if self.skips else "stop"
        return Truth(self.program, list(streams.values()), tolerance=self.tolerance, on_error=on_error)

    def layout_of(self, rnd: random.Random) -> Layout:
        """Return the plan of a generation, with the splits of its streams."""
        number = rnd.randrange(MOST_LAYOUTS)
        if self.layout is not None:
            return self.layout
        if number not in self._layouts:
            self._layouts[number] = self.random_layout(random.Random(f"layout {number}"))  # noqa: S311 - reproducible
        return self._layouts[number]

    def random_layout(
        self, rnd: random.Random, max_leaves: int | None = None, *, is_split: bool = True
    ) -> Layout:
        """Return a random plan over random splits of the streams."""
        stamped = TagSet.of(*self.program.stamps)
        splits = {
            stream: rnd.choice(SPLITS) if is_split and not self.tags_of(stream) & stamped else 1
            for stream in self.streams
        }
        topology = Topology(
            [
                Stream(impl, self.tags_of(stream))
                for stream, count in splits.items()
                for impl in impl_streams(stream, count)
            ],
            [Machine("m", 3)],
        )
        plan = by_name.plan(
            self.program, topology, name="random", seed=rnd.randrange(10**6), max_leaves=max_leaves
        )
        return Layout(plan, splits)

    def tags_of(self, stream: str) -> TagSet:
        """Return the possible tags of a stream."""
        if stream in self.tags:
            return self.tags[stream]
        return TagSet.of(*(tag for batch in self.streams[stream] for tag in batch.tags))

    def check(self, seed: int, kinds: tuple[str, ...] = KINDS) -> Simulated:
        """Run the program under the faults of a seed. Raises WrongRunError if anything is wrong."""
        return self.check_with(seed, faults_of(seed, kinds))

    def check_with(self, seed: int, faults: Faults) -> Simulated:
        """Run the program under these faults."""
        if faults.poison:
            poisoned = replace(self, program=with_fuse(self.program, Poison(seed, faults.poison)), skips=True)
            return poisoned._run(seed, faults)  # noqa: SLF001 - another case of ours
        return self._run(seed, faults)

    def _run(self, seed: int, faults: Faults) -> Simulated:
        _ = self.truth.outputs if not faults.live else None
        bound = SMALL_BUFFER if seed % 3 == 0 else None
        simulation = Simulation(
            self.program,
            self.layout_of,
            self.streams,
            seed=seed,
            buffer_bytes=bound,
            faults=faults,
            on_error="skip" if self.skips else "stop",
            validates=self.validates,
        )
        try:
            run = simulation.run()
        except OutOfOrderError as error:
            if simulation.live is None or not simulation.live.has_disorder():
                raise WrongRunError([str(error)], simulation.result, faults) from error
            run = simulation.result  # the run failed because of a row that came too late
            run.is_refused = True
        except DgsError as error:
            problem = f"{type(error).__name__}: {error}"
            raise WrongRunError([problem], simulation.result, faults) from error
        if problems := list(self.problems(run)):
            raise WrongRunError(problems, run, faults)
        return run

    def problems(self, run: Simulated) -> Iterator[str]:
        """Yield what is wrong with a run."""
        truth = self.truth if run.streams is None else self._truth_of(run.streams)
        yield from run.problems
        yield from wrong_outputs(truth, run.outputs, is_whole=not run.is_refused)
        yield from out_of_order(run.outputs, block=BLOCK, splits=COMMON_SPLITS)
        for number, (state, positions) in enumerate(run.snapshots):
            yield from wrong_state(truth, f"snapshot {number}", state, positions)
        for checkpoint in run.commits:
            if checkpoint.state is not None:
                yield from wrong_state(
                    truth, f"checkpoint {checkpoint.epoch}", checkpoint.state, checkpoint.positions
                )
        yield from self._backward_positions(truth, run)
        if run.is_complete and not truth.is_same(codec.encode(run.state), truth.state):
            yield "the final state differs from that of the sequential program"
        most = CALM_STEPS + CALM_STEPS_PER_EVENT * len(truth.events)
        if run.calm_steps > most:
            yield f"{run.calm_steps} steps after the last fault are more than {most}"

    def _backward_positions(self, truth: Truth, run: Simulated) -> Iterator[str]:
        """Yield positions that go back, between two commits of a generation or between the starts of two generations."""
        ends = [*(count for count, _ in run.begun[1:]), len(run.commits)]
        for (first, point), end in zip(run.begun, ends, strict=False):
            before = point.positions
            for checkpoint in run.commits[first:end]:
                yield from went_back(truth, f"epoch {checkpoint.epoch}", before, checkpoint.positions)
                before = checkpoint.positions
        for (_, one), (_, other) in zip(run.begun, run.begun[1:], strict=False):
            yield from went_back(truth, f"generation {other.generation}", one.committed, other.committed)


def faults_of(seed: int, kinds: tuple[str, ...] = KINDS) -> Faults:
    """Return the faults of a seed."""
    return Faults.swarm(random.Random(f"faults {seed}"), kinds)  # noqa: S311 - reproducible, not secret
