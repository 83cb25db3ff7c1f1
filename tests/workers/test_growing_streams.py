"""A finished run is resumed after its streams have grown: its end was that of the old streams."""

from __future__ import annotations

import random

from dgs import codec
from dgs.semantics import sequential
from dgs.workers.simulated.simulation import simulate
from dgs.workers.simulated.store import KeptCheckpoints, KeptStore
from tests.strategies import random_workload
from tests.workers.simulated.test_crashes import random_layouts


def check_grown_streams(seed: int) -> None:
    """Run a workload up to some ts to its end, then all of it, resumed under other plans and splits."""
    rnd = random.Random(f"growth {seed}")
    work = random_workload(random.Random(seed))
    streams = dict(zip(work.stream_ids, work.batches, strict=True))
    cut = rnd.choice([int(ts) for batches in work.batches for batch in batches for ts in batch.ts] or [0])
    begun = {
        stream: [batch.take((batch.ts <= cut).nonzero()[0]) for batch in batches]
        for stream, batches in streams.items()
    }
    begun = {stream: [batch for batch in batches if len(batch)] for stream, batches in begun.items()}
    kept = KeptCheckpoints()
    for fed in (begun, streams):
        run = simulate(
            work.program,
            random_layouts(work),
            fed,
            seed=seed,
            store=lambda _: KeptStore(kept, lambda _files: None),
        )
    assert kept.last is not None
    assert kept.last.is_final
    expected = sequential.run(work.program, work.batches)
    assert codec.encode(run.state) == codec.encode(expected.state), f"seed {seed}: the final state differs"


def test_finished_run_resumes_with_new_rows():
    for seed in range(60):
        check_grown_streams(seed)
