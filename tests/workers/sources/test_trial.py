"""The trial of a program: what its functions cost, on the first events of its streams."""

from __future__ import annotations

from dgs.job.schema import StreamConfig
from dgs.model.program import Program
from dgs.workers.sources.context import SourceContext
from dgs.workers.sources.trial import trial

NUMBERS = StreamConfig(id="s", tags=["n"], source={"memory": "s"})


class Summing(Program):
    """It takes over 100 ns per event in `update_batch`, and nothing per call."""

    kinds = ("n",)

    def init(self):
        return 0

    def update(self, state, event, emit):
        return state + event.payload

    def update_batch(self, state, batch, emit):
        return state + sum(i % 7 for i in range(8 * len(batch)))


def costs_of(program, events):
    memory = {"s": [("n", i, i) for i in range(events)]}
    return trial(program, [NUMBERS], SourceContext(program, memory=memory))


def test_an_event_of_a_short_batch_costs_what_its_update_batch_does():
    assert costs_of(Summing(), 40).columns > 50e-9


def test_a_single_event_does_not_tell_what_one_costs_in_a_batch():
    assert costs_of(Summing(), 1).columns is None
