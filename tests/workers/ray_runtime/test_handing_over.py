"""Outputs that a host leaves for the driver: a bounded number of bytes at a time, all of them, in order."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

from dgs import codec
from dgs.job.schema import RuntimeConfig
from dgs.model.outputs import OutputBatch
from dgs.model.tags import Tag
from dgs.workers.ray_runtime.actor import HostActor
from dgs.workers.sinks.kept_outputs import PART_BYTES
from tests.workers.runtime.test_caller_outputs import JOB

BOUND = 2**20


def host():
    """Return a host outside Ray, whose hosts may leave `BOUND` bytes for the driver."""
    made = HostActor()
    runtime = RuntimeConfig(buffer_bytes=f"{4 * BOUND}B")
    made.assign(replace(JOB, runtime=runtime), 1, None, 0)
    made._engine = SimpleNamespace(counts=(0, 0), standing=lambda: None)
    return made


def test_one_large_batch_reaches_the_driver_in_small_parts():
    """A step that emits one text 40,000 times gave the driver 80 MB in one answer, and held as much."""
    rows = list(range(40_000))
    large = OutputBatch.of(
        "s", rank=0, tags=[Tag("a")], ts=rows, seq=rows, index=rows, values=["x" * 2000] * 40_000
    )
    made, engine, got = host(), SimpleNamespace(take_outputs=lambda: [(1, large), (2, large)]), []
    with ThreadPoolExecutor() as pool:
        handing = pool.submit(made._hand_over, engine)
        while not handing.done() or made._ready:
            ready = made.poll(True)[2]
            assert sum(len(data) for _, data in ready) < BOUND + 2 * PART_BYTES
            got += ((epoch, seq) for epoch, data in ready for seq in codec.decode(data).seq.tolist())
        handing.result()
    assert got == [(epoch, row) for epoch in (1, 2) for row in rows]


def test_host_that_is_to_stop_waits_for_nobody():
    rows = list(range(4_000))
    large = OutputBatch.of(
        "s", rank=0, tags=[Tag("a")], ts=rows, seq=rows, index=rows, values=["x" * 2000] * 4_000
    )
    made = host()
    made._stopping = True
    made._hand_over(SimpleNamespace(take_outputs=lambda: [(1, large)]))
    assert sum(len(codec.decode(data)) for _, data in made._ready) == len(rows)
