"""The pure parts of units in windows, without Spark: folds of any batches, and replays of any chunks, are the sequential program."""

import random
from itertools import pairwise

import numpy as np
import pytest

from dgs.model.events import EventBatch
from dgs.model.order import END, after_event
from dgs.model.tags import Tag
from dgs.spark_bridge.batch import window_states
from dgs.spark_bridge.batch.root_events import RootEvents, pieces
from dgs.spark_bridge.batch.window_states import OpenWindows
from dgs.workers.protocol.folding.fold import Folder
from experiments.event_window.program import EventWindow as InColumns
from tests.programs import BARRIER, VALUE, EventWindow


def a_stream(chance, name, rank, kind, most):
    """Return a random stream with ties."""
    count = chance.randrange(most)
    ts = sorted(chance.randrange(40) for _ in range(count))
    payload = np.array([chance.randrange(100) for _ in range(count)], dtype=np.int64)
    return EventBatch.of(name, rank=rank, tags=[Tag(kind, None)], ts=ts, payload=payload)


def cut(chance, batch):
    """Cut a batch at random places."""
    at = sorted({0, len(batch), *(chance.randrange(len(batch) + 1) for _ in range(chance.randrange(5)))})
    return [batch.cut(*ends) for ends in pairwise(at)]


@pytest.mark.parametrize("seed", range(60))
def test_windows_of_any_batches_are_those_of_each_event(seed, monkeypatch):
    chance = random.Random(seed)
    monkeypatch.setattr(window_states, "MOST_AT_ONCE", chance.choice([1, 3, 65_536]))
    values = a_stream(chance, "v", 1, str(VALUE), 40)
    keys = a_stream(chance, "b", chance.choice([0, 2]), str(BARRIER), 30)
    program = chance.choice([EventWindow, InColumns])()
    windows = OpenWindows(Folder(program, program.states()[0], "w"), keys if len(keys) else None)
    found = []
    for batch in cut(chance, values):
        windows.fold(batch)
        closed = windows.closed(after_event(batch.key(len(batch) - 1)))
        assert all(keys.key(number) <= after_event(batch.key(len(batch) - 1)) for number, _ in closed)
        found += closed
    found += windows.closed(END)
    expected = {}
    for row in range(len(values)):
        number = sum(keys.key(i) < values.key(row) for i in range(len(keys)))
        expected[number] = expected.get(number, 0) + int(values.payload[row])
    assert [(number, int(state)) for number, state in found] == sorted(expected.items())


@pytest.mark.parametrize("seed", range(20))
def test_root_events_come_back_in_pieces_that_no_multiple_divides(seed, tmp_path):
    chance = random.Random(seed)
    batch = a_stream(chance, "b", 0, str(BARRIER), 60)
    size = chance.choice([1, 2, 7, 100])
    root = RootEvents.written(tmp_path / "root", cut(chance, batch))
    found = list(pieces(root.batches(), size))
    places = np.cumsum([0, *map(len, found)])
    assert [event for piece in found for event in piece.events()] == batch.events()
    assert all(start // size == (stop - 1) // size for start, stop in pairwise(places))
    assert root.count == len(batch)
    keys = root.keys()
    assert (keys is None) == (not len(batch))
    assert keys is None or (keys.ts.tolist(), keys.seq.tolist()) == (batch.ts.tolist(), batch.seq.tolist())
