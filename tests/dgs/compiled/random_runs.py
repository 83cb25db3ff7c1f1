"""Random runs of a given program: batches of several streams with ties, small and extreme numbers, and random cuts.

A run is a release whose lanes depend on each other as in the program. It is folded by machine code and event by event.
"""

import random

import numpy as np

import dgs
from dgs.errors import UserCodeError
from dgs.model.events import EventBatch
from dgs.workers.protocol.bounds import Bounds
from dgs.workers.protocol.folding.fold import Folder
from dgs.workers.protocol.folding.to_compile import ToCompile
from dgs.workers.protocol.releases import Release
from tests.dgs.compiled.both_ways import exact
from tests.dgs.compiled.random_programs import EDGES, FLOATS
from tests.dgs.compiled.test_merged_lanes import by_key, sequential

AT_ONCE = 100
"""The number of runs that share a worker, with its loops and the widest types of its states so far."""


class Runs:
    """Random runs of a program. `tags`: of its events. `floats`, `objects`: the payloads, by default ints. `counts`: numbers of events."""

    def __init__(self, program, tags, *, floats=False, objects=False):
        self._program, self._tags, self._floats, self._objects = program, tags, floats, objects
        self.compiled = self.interpreted = self.deviations = 0

    def differing(self, seeds):
        """Return the seeds of runs with other results when compiled."""
        wrong = []
        for seed in seeds:
            if seed % AT_ONCE == 0:
                folder = self._folder()
            draw = random.Random(seed)
            release = self._release(draw)
            wanted = sequential(self._program, release.batches, self._program.init())
            if self._folded(folder, release) != wanted:
                wrong.append(seed)
            if seed % AT_ONCE == AT_ONCE - 1:
                self._count(folder.compiled_counts)
        return wrong

    def _folder(self):
        of = self._program.states()[0]
        to_compile = ToCompile(of.update, is_required=True)
        return Folder(self._program, of, "w", Bounds(few_events=0), compiled=to_compile)

    def _count(self, counts):
        self.compiled += counts.compiled_events
        self.interpreted += counts.interpreted_events
        self.deviations += counts.deviations

    def _folded(self, folder, release):
        try:
            state, made = folder.fold(self._program.init(), release)
        except UserCodeError as error:
            return error.error.partition(": ")[0], error.error.partition(": ")[2]
        rank = {batch.stream: batch.rank for batch in release.batches}
        outputs = {}
        for one in sorted(made, key=lambda one: one.stream):
            for seq, value in zip(np.asarray(one.seq).tolist(), one.to_list(), strict=True):
                outputs.setdefault((rank[one.stream], seq), []).append(exact(value))
        return by_key(state), outputs

    def _release(self, draw):
        """Return a release of one to three lanes, each of some tags of one kind."""
        lanes, batches, tags_of = [], [], {}
        kinds = sorted({tag.kind for tag in self._tags})
        for lane in range(draw.choice([1, 2, 3])):
            kind = draw.choice(kinds)
            tags = [tag for tag in self._tags if tag.kind == kind]
            tags_of[lane] = tags = draw.sample(tags, draw.choice([1, len(tags)]))
            seq = ts = 0
            for _ in range(draw.choice([1, 1, 2])):
                size = draw.randint(1, 10)
                times = np.cumsum([draw.choice([0, 0, 1, 3]) for _ in range(size)]) + ts
                codes = [draw.randrange(len(tags)) for _ in range(size)] if len(tags) > 1 else None
                numbers = np.arange(seq, seq + size)
                payload = self._payload(draw, size)
                batches.append(
                    EventBatch.of(
                        f"s{lane}", rank=lane, tags=tags, ts=times, codes=codes, payload=payload, seq=numbers
                    )
                )
                lanes.append(lane)
                seq, ts = seq + size, int(times[-1])
        return Release(tuple(lanes), batches, self._ordered(tags_of))

    def _ordered(self, tags_of):
        depend = self._program.dependence
        return {
            lane: tuple(
                one
                for one, others in tags_of.items()
                if one != lane and any(depend(a, b) for a in tags for b in others)
            )
            for lane, tags in tags_of.items()
        }

    def _payload(self, draw, size):
        if self._objects:
            return [draw.choice(["u", 7, None, {"temp": 3.5}, (1, 2)]) for _ in range(size)]
        large = draw.choice([0.0, 0.0, 0.1, 0.4])
        if self._floats:
            drawn = [
                draw.choice(FLOATS) if draw.random() < large else draw.randint(-9, 9) / 4 for _ in range(size)
            ]
            return np.array(drawn)
        return np.array(
            [draw.choice(EDGES) if draw.random() < large else draw.randint(-5, 9) for _ in range(size)]
        )


def tags_of(*kinds, keys=()):
    """Return tags of some kinds, with keys if there are any."""
    return [dgs.Tag(str(kind), key) for kind in kinds for key in keys or (None,)]
