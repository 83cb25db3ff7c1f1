"""The seeded scheduler: the same hosts, workers and coordinator under random delivery orders and faults, from a seed.

One random number generator decides how workers are spread over hosts, how streams are cut into batches and heartbeats, which
of all possible steps happens next, and which faults strike. Nothing depends on clocks, hash seeds or the process, so a seed
replays a run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from dgs import codec
from dgs.errors import (
    CheckpointFailedError,
    CheckpointRefusedError,
    FrameGapError,
    InternalError,
    OutputUnwritableError,
    SinkChangedError,
    StalledError,
    UserCodeError,
)
from dgs.errors.raised import RAISED, is_ours
from dgs.model.events import EventBatch
from dgs.model.program import Program
from dgs.planner.plan import Plan
from dgs.workers.checkpoints.directory_store import DirectoryStore
from dgs.workers.recovery.checkpoint import CheckpointStore, Publish, ResumePoint
from dgs.workers.simulated.disk import SimulatedCrash
from dgs.workers.simulated.faults import NO_FAULTS, CrashedError, Faults, HostKilledError
from dgs.workers.simulated.generation import Generation
from dgs.workers.simulated.layout import Layout
from dgs.workers.simulated.mishaps import Remains, Starts, Stops, strikes
from dgs.workers.simulated.result import Simulated
from dgs.workers.simulated.user_code import EXITS
from dgs.workers.simulated.world import World

__all__ = ["Layouts", "OnError", "Simulated", "Simulation", "simulate"]

MOST_GAPS = 3
"""At most this many generations of a run end because a frame is missing."""

MOST_SNAPSHOTS = 12
"""The most snapshots in a generation. Without a bound they could be requested faster than they are taken."""

MOST_AT_ONCE = 4
"""The most snapshots that are requested at once."""

MOST_CALLS = 60
"""User code that is to raise does so within this many calls."""

PATIENCE = 12
"""After this many ends of generations besides crashes, the disk fails no more, so that the run ends."""

OnError = Literal["stop", "skip"]
Layouts = Callable[[random.Random], Layout]
StoreFactory = Callable[[Publish], CheckpointStore]


class Simulation(World):
    """One run of a program, over as many generations as the faults cause. `streams`: the events of each in rank order.

    `plan`: one plan, or a function that returns the plan of each generation. `buffer_bytes`: hosts read by R11 with this bound;
    without it, any stream may be read at any time. `store`: opens a store in place of the one for `faults`.
    `validates`: hosts and workers check themselves after every step, for tests of the protocol.
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
        validates: bool = False,
    ) -> None:
        super().__init__(
            program,
            streams,
            seed=seed,
            buffer_bytes=buffer_bytes,
            faults=faults,
            skips=on_error == "skip",
            validates=validates,
        )
        exits = [EXITS[(seed + number) % len(EXITS)] for number in range(faults.exits)]
        self._mistakes: list[BaseException | None] = [*exits, *[None] * faults.raises]
        if self.skips:  # the skipped event would be unknown to the oracle
            self._mistakes.clear()
        self._stops = Stops(self.random, faults.stops)
        self._layout = plan if callable(plan) else lambda _: Layout(plan)
        self._remains = Remains(self.random, self.fuse)
        self._open = store or self.storage.open
        self._store: CheckpointStore | None = None
        self._run = ""
        self._starts = Starts(self.random, has_tables=not self.is_transactional)
        self._calm_since: int | None = None

    def run(self, most_steps: int = 10**6) -> Simulated:
        """Run to the end. Raises StalledError if nothing can move, or after `most_steps`, before the program is done."""
        try:
            return self._run_to_the_end(most_steps)
        finally:
            self.result.outputs = self.visible
            if self.live is not None:
                self.result.streams = self.live.decided(self.streams)

    def _run_to_the_end(self, most_steps: int) -> Simulated:
        """Run generation after generation until the run is complete, refused, or wrong."""
        result = self.result
        while not result.is_complete:
            begun = self._begin()
            if begun is None:
                result.is_refused = True
                break
            store, point = begun
            self.begin(point.generation)
            self.tells(f"begins generation {point.generation} from epoch {point.epoch}")
            layout = self._layout(self.random)
            result.layouts.append(layout)
            generation = Generation(self, layout, store, point)
            if self._mistakes and self.random.random() < 0.5:  # noqa: PLR2004 - as often as not
                self.fuse.light(self.random.randint(1, MOST_CALLS), self._mistakes[-1])
            try:
                self._drive(generation, most_steps)
            except (CrashedError, FrameGapError, SimulatedCrash) as error:
                self._crash(generation, type(error).__name__)
            except (CheckpointFailedError, OutputUnwritableError) as error:
                self._end(type(error).__name__)
            except UserCodeError:
                if not self.fuse.has_gone_off():
                    raise
                self._end("user code raised" if self._mistakes.pop() is None else "user code raised an exit")
            except RAISED as error:
                if is_ours(error) or isinstance(error, Exception):
                    raise
                self.object_to(f"{error!r} of user code has become no user error: it ends the process")
                break
        self._look_at_the_disk()
        result.calm_steps = 0 if self._calm_since is None else result.steps - self._calm_since
        return result

    def _begin(self) -> tuple[CheckpointStore, ResumePoint] | None:
        """Return an open store, and the point from which to go on; None if the store rightly refuses."""
        while True:
            self._look_at_the_disk()
            self.storage.threaten()
            is_beyond = self.storage.is_beyond_promise()
            try:
                store = self._store or self._started()
                point = store.begin()
                self._enter(point)
            except (CrashedError, SimulatedCrash):
                self.result.crashes += 1
                self._end("crashed at the start", is_gone=True)
            except OutputUnwritableError:
                self._end("outputs not published at the start")
            except SinkChangedError:
                self._end("refused a sink that has lost its table", is_gone=True)
                self.restore_table()
            except CheckpointRefusedError:
                if self.storage.is_beyond_promise():
                    return None
                is_other = self._starts.place != self._starts.home
                self._end("refused another sink" if is_other else "refused for a while", is_gone=True)
            else:
                if is_beyond:
                    self.object_to(
                        f"generation {point.generation} began from what is damaged beyond the promise"
                    )
                if point.epoch < self.acknowledged:
                    self.object_to(
                        f"epoch {self.acknowledged} was committed, and {point.epoch} is the last that is"
                    )
                self.result.begun.append((len(self.result.commits), point))
                return store, point

    def _started(self) -> CheckpointStore:
        """Start a process, and return the store that it opens. Raises CheckpointRefusedError, CrashedError, SimulatedCrash."""
        starts = self._starts
        if self.faults.other_sinks or starts.count:
            starts.next(self.faults.other_sinks)
            self.storage.sinks = (starts.place,)
        self._store = self._open(self.publish)
        if isinstance(self._store, DirectoryStore):
            self._run = self._store.name_run(resumes=starts.count > 1, run=f"run {starts.count}")
        return self._store

    def _enter(self, point: ResumePoint) -> None:
        """Let a generation write to the sink of its process, if sinks have identities. Raises SinkChangedError."""
        starts, has_committed = self._starts, point.epoch > 0
        if not starts.count:
            return
        if starts.is_emptied:
            self.lose_table()
        self.enter(starts.place, self._run, generation=point.generation, continues=has_committed)
        if has_committed and not starts.is_as_before:
            self.object_to(f"goes on from epoch {point.epoch} with a sink that has none of its outputs")
        starts.home, starts.is_emptied = starts.place, False

    def _look_at_the_disk(self) -> None:
        """Report damage on the disk that no fault has caused."""
        for problem in self.storage.own_damage():
            self.object_to(f"damaged, and by no fault: {problem}")

    def _drive(self, generation: Generation, most_steps: int) -> None:
        """Take steps until the generation is done or killed, or has stopped at a checkpoint."""
        result, rnd = self.result, self.random
        self._stops.begin_generation()
        while not generation.is_done:
            self._calm_down(generation)
            self._remains.wake_a_zombie()
            steps = list(generation.steps())
            if not steps and generation.has_lost_frames:
                raise FrameGapError(host=0, sender=0, expected=0, got=0)
            if not steps and self._wait(generation):
                continue
            if not steps or result.steps >= most_steps:
                reason = f"after {result.steps} steps {len(steps)} steps are possible"
                raise StalledError(reason=reason)
            result.steps += 1
            if self._strikes(generation):
                continue
            generation.do(*rnd.choice(steps))
            if generation.asked < MOST_SNAPSHOTS and rnd.random() < self.faults.snapshots:
                for _ in range(MOST_AT_ONCE if self.is_odd() else 1):
                    generation.request_snapshot()
            if self._stops.has_stopped(generation):
                self._end("stopped", is_gone=rnd.random() < 0.5)  # noqa: PLR2004 - or moved to another plan
                return
        final = generation.driver.final
        if final is not None and final.state is not None:
            result.state = codec.decode(final.state)
            result.is_complete = True

    def _wait(self, generation: Generation) -> bool:
        """Let time pass until something can move; return whether anything can."""
        until = generation.next_event()
        if until is None:
            return False
        self.says("nothing moves")
        generation.free()
        return True

    def _calm_down(self, generation: Generation) -> None:
        """End all faults at step `until` (liveness mode)."""
        faults = self.faults
        if faults.until is None or self.now < faults.until:
            return
        self.says("no more faults")
        self.faults = replace(NO_FAULTS, until=None)
        self._calm_since = self.now
        self._mistakes.clear()
        self._stops.forget_all()
        self.fuse.put_out()
        self.storage.heal()
        generation.free()
        self._remains.bury_zombies()

    def _strikes(self, generation: Generation) -> bool:
        """Perhaps let a fault strike; return whether it took the place of a step."""
        if self.live is not None and self.random.random() < self.faults.jumps:
            self.says(f"the clock jumps by {self.live.clocks.jump(self.random)} ns")
        return strikes(
            self.random,
            self.faults,
            generation,
            self._remains,
            may_crash=self.result.crashes < self.faults.crashes,
            may_break=self.result.ends[FrameGapError.__name__] < MOST_GAPS,
        )

    def _crash(self, generation: Generation, why: str) -> None:
        """Drop the generation, unless it goes on as a zombie."""
        self.result.crashes += 1
        is_zombie = why != HostKilledError.__name__ and self._remains.leave(generation, self.faults)
        is_host = why == FrameGapError.__name__ or self.random.random() < 0.5  # noqa: PLR2004 - or the driver, too
        self._end(why, is_gone=is_zombie or why == SimulatedCrash.__name__ or not is_host)

    def _end(self, why: str, *, is_gone: bool = False) -> None:
        """Note that a generation has ended. `is_gone`: the process with the open store has ended, too, and perhaps the machine."""
        self.result.ends[why] += 1
        self.says(f"end: {why}")
        self.fuse.put_out()
        if is_gone:
            self._store = None
            self.storage.crash()
        ends = self.result.ends.total() - self.result.crashes
        if ends > PATIENCE or self.result.crashes > self.faults.crashes + PATIENCE:
            self.storage.heal()
        if ends > 10 * PATIENCE:
            raise InternalError(problem=f"the run never ends: {dict(self.result.ends)}")


def simulate(*given: Any, **options: Any) -> Simulated:
    """Run a program with the plans, the delivery order and the faults of a seed. All arguments are those of `Simulation`."""
    return Simulation(*given, **options).run()
