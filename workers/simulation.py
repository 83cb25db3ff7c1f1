"""The seeded scheduler: the same hosts, workers and coordinator under random delivery orders and faults, from a seed.

One random number generator decides how workers are spread over hosts, how streams are cut into batches and heartbeats, which
of all possible steps happens next, and which faults strike. Nothing depends on clocks, hash seeds or the process: a seed and a
trace say everything.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from dgs import codec
from dgs.errors import FencedError, FrameGapError, StalledError
from dgs.events import EventBatch
from dgs.outputs import OutputBatch
from dgs.program import Program
from planner.plan import Plan
from workers.checkpoints import Checkpoint, CheckpointStore, ResumePoint, StagedFile
from workers.faults import NO_FAULTS, CrashedError, Faults
from workers.positions import Positions
from workers.simulated_generation import Generation, Layout
from workers.simulated_store import KeptCheckpoints, KeptStore

SNAPSHOT_CHANCE = 0.02
ZOMBIE_CHANCE = 0.2

OnError = Literal["stop", "skip"]
Layouts = Callable[[random.Random], Layout]
StoreFactory = Callable[["Simulation"], CheckpointStore]


@dataclass
class Simulated:
    """What a simulated run gave.

    `outputs`: what sinks have accepted or published, in that order; `snapshots`: state (codec bytes) and positions of every
    snapshot on the way; `commits`: the checkpoints that became durable; `state`: the final one; `trace`: a line per step.
    """

    outputs: list[OutputBatch] = field(default_factory=list)
    snapshots: list[tuple[bytes, Positions]] = field(default_factory=list)
    commits: list[Checkpoint] = field(default_factory=list)
    layouts: list[Layout] = field(default_factory=list)
    state: Any = None
    steps: int = 0
    crashes: int = 0
    is_complete: bool = False
    trace: list[str] = field(default_factory=list)

    @property
    def digest(self) -> str:
        """A hash of every step taken: equal for equal seeds, in any process."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()

    def values(self) -> list[Any]:
        """Return the outputs as Python objects, in the order in which they came out."""
        return [value for batch in self.outputs for value in batch.to_list()]


class Simulation:
    """One run of a program, over as many generations as the faults make of it. `streams`: the events of each in rank order.

    `plan`: one plan, or a function that gives each generation its own. `buffer_bytes`: when given, hosts read by the rules of
    R11 with that bound; else any stream may be read at any time. `store`: where checkpoints go (default: in memory).
    """

    def __init__(
        self,
        program: Program,
        plan: Plan | Layouts,
        streams: Mapping[str, Sequence[EventBatch]],
        *,
        seed: int,
        buffer_bytes: int | None = None,
        faults: Faults = NO_FAULTS,
        store: StoreFactory | None = None,
        on_error: OnError = "stop",
    ) -> None:
        self.random = random.Random(seed)  # noqa: S311 - reproducible, not secret
        self.program, self.streams, self.buffer_bytes, self.faults = program, streams, buffer_bytes, faults
        self.skips = on_error == "skip"
        self.is_transactional = self.random.random() < 0.5  # noqa: PLR2004 - half of the seeds
        self.result = Simulated()
        self._layout = plan if callable(plan) else lambda _: Layout(plan)
        self._staged: dict[str, list[OutputBatch]] = {}
        self._published: set[str] = set()
        self._marks = _Seen()
        self._generation = 0
        self._zombies: list[Generation] = []
        self._store = store or _on_a_good_disk()

    def run(self, most_steps: int = 10**6) -> Simulated:
        """Run to the end. Raises StalledError if nothing can move, or not enough moves, before the program is done."""
        while not self.result.is_complete:
            store, point = self._begin()
            self._generation = point.generation
            self._staged.clear()
            layout = self._layout(self.random)
            self.result.layouts.append(layout)
            generation = Generation(self, layout, store, point, self.result.trace)
            try:
                self._drive(generation, most_steps)
            except (CrashedError, FrameGapError) as error:
                self._crash(generation, type(error).__name__)
        return self.result

    def _begin(self) -> tuple[CheckpointStore, ResumePoint]:
        while True:
            store = self._store(self)
            try:
                return store, store.begin()
            except CrashedError:
                self.result.crashes += 1
                self.result.trace.append("crash at the start")

    def _drive(self, generation: Generation, most_steps: int) -> None:
        """Take steps until the generation is done or struck down."""
        while not generation.is_done:
            self._wake_a_zombie()
            steps = list(generation.steps())
            if not steps and generation.has_lost_frames:
                raise FrameGapError(host=0, sender=0, expected=0, got=0)
            if not steps or self.result.steps >= most_steps:
                reason = f"after {self.result.steps} steps {len(steps)} steps are possible"
                raise StalledError(reason=reason)
            self.result.steps += 1
            if self._strikes(generation):
                continue
            generation.do(*self.random.choice(steps))
            if self.random.random() < SNAPSHOT_CHANCE:
                generation.request_snapshot()
        if generation.final is not None and generation.final.state is not None:
            self.result.state = codec.decode(generation.final.state)
            self.result.is_complete = True

    def _strikes(self, generation: Generation) -> bool:
        """Let a fault strike, perhaps; return whether that took the place of a step."""
        faults, rnd = self.faults, self.random
        if self.result.crashes < faults.crashes and rnd.random() < faults.crash_chance:
            raise CrashedError
        edges = generation.busy_edges() if faults.loss or faults.repetition else []
        if edges and rnd.random() < faults.repetition:
            generation.repeat(rnd.choice(edges))
            return True
        if edges and self.result.crashes < faults.crashes and rnd.random() < faults.loss:
            generation.lose(rnd.choice(edges))
            return True
        return False

    def _crash(self, generation: Generation, why: str) -> None:
        """Forget the generation, unless it walks on as a zombie that does not know it is dead."""
        self.result.crashes += 1
        self.result.trace.append(f"crash: {why}")
        if self.random.random() < self.faults.zombie_chance:
            self._zombies.append(generation)

    def _wake_a_zombie(self) -> None:
        if not self._zombies or self.random.random() > ZOMBIE_CHANCE:
            return
        zombie = self.random.choice(self._zombies)
        steps = list(zombie.steps())
        if not steps or zombie.is_fenced:
            self._zombies.remove(zombie)
            return
        try:
            zombie.do(*self.random.choice(steps))
        except FrameGapError:
            self._zombies.remove(zombie)

    def write(self, path: str, batch: OutputBatch) -> None:
        """Append to a staged file."""
        self._staged.setdefault(path, []).append(batch)

    def has_staged(self, path: str) -> bool:
        """Return whether there is such a file."""
        return path in self._staged

    def publish(self, files: Sequence[StagedFile]) -> None:
        """Give staged files their final names: readers see them now. Doing it twice does it once."""
        for file in files:
            if file.final not in self._published:
                self._published.add(file.final)
                self.result.outputs += self._staged.pop(file.path)

    def accept(self, generation: int, batch: OutputBatch, splits: int) -> None:
        """Let the idempotent sink take outputs: what is at or below its marks has come before (R8)."""
        if generation != self._generation:
            raise FencedError(path="the sink", generation=generation, newest=self._generation)
        new = self._marks.accept(batch, splits)
        if len(new):
            self.result.outputs.append(new)

    def saw_snapshot(self, state: bytes, positions: Positions) -> None:
        """Note a snapshot, for the oracle."""
        self.result.snapshots.append((state, positions))

    def committed(self, checkpoint: Checkpoint) -> None:
        """Note a commit, for the oracle."""
        self.result.commits.append(checkpoint)


class _Seen:
    """Remembers the id of every output."""

    def __init__(self) -> None:
        self._ids: set[tuple[int, int, int, int]] = set()

    def accept(self, batch: OutputBatch, _splits: int) -> OutputBatch:
        """Return the outputs that are new."""
        columns = (batch.ts.tolist(), np.asarray(batch.seq).tolist(), batch.index.tolist())
        rows = []
        for row, one in enumerate(zip(*columns, strict=True)):
            if (batch.rank, *one) not in self._ids:
                self._ids.add((batch.rank, *one))
                rows.append(row)
        return batch.take(np.array(rows, dtype=np.intp))


def _on_a_good_disk() -> StoreFactory:
    kept = KeptCheckpoints()
    return lambda simulation: KeptStore(kept, simulation.publish)


def simulate(
    program: Program,
    plan: Plan | Layouts,
    streams: Mapping[str, Sequence[EventBatch]],
    *,
    seed: int,
    buffer_bytes: int | None = None,
    faults: Faults = NO_FAULTS,
    store: StoreFactory | None = None,
    on_error: OnError = "stop",
) -> Simulated:
    """Run a program with the plans, the delivery order and the faults of `seed`."""
    simulation = Simulation(
        program,
        plan,
        streams,
        seed=seed,
        buffer_bytes=buffer_bytes,
        faults=faults,
        store=store,
        on_error=on_error,
    )
    return simulation.run()
