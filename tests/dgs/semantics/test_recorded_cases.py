"""Recorded outputs of the prototype, ties included: the sequential program has the same outputs."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgs.model.events import EventBatch
from dgs.semantics import sequential, wire_diagrams
from tests.recorded_programs import CASES, PROGRAMS, TAGS, as_json, recorded, sums_of
from tests.strategies import diagrams

needs_the_cases = pytest.mark.skipif(
    not CASES.is_dir(), reason="the recorded cases are not beside the checkout (shared/cases)"
)


@pytest.fixture(scope="module")
def cases():
    loaded = {}

    def load(case):
        if case not in loaded:
            loaded[case] = recorded(case)
        return loaded[case]

    return load


@needs_the_cases
@pytest.mark.parametrize("case", PROGRAMS)
def test_run_gives_the_outputs_of_every_recording(cases, case):
    told = cases(case)
    lines = [as_json(o.value) for o in sequential.run(told.workload.program, told.workload.batches).outputs]
    assert told.outputs
    for recording, expected in told.outputs.items():
        assert Counter(lines) == expected, recording
        assert sums_of(lines) == told.sums[recording], recording


@needs_the_cases
def test_run_gives_other_outputs_when_ties_go_the_other_way(cases):
    workload = cases("ab_ties").workload
    last_first = [[_with_rank(b, rank) for b in s] for rank, s in enumerate(reversed(workload.batches))]
    lines = Counter(as_json(o.value) for o in sequential.run(workload.program, last_first).outputs)
    assert lines != next(iter(cases("ab_ties").outputs.values()))


@pytest.mark.parametrize("make", TAGS, ids=lambda make: make.__name__)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_execute_any_diagram_gives_the_sequential_outputs(make, data):
    program = make()
    tags = data.draw(st.lists(st.sampled_from(TAGS[make]), max_size=20))
    payload = [ts * 50 if tag.kind != "update_user_address" else [ts, ts] for ts, tag in enumerate(tags)]
    codes = [TAGS[make].index(tag) for tag in tags]
    ts = range(0, 50 * len(tags), 50)
    batch = EventBatch.of("s", rank=0, tags=TAGS[make], codes=codes, ts=ts, payload=payload)
    expected = sequential.run(program, [[batch]])
    state, outputs = wire_diagrams.execute(program, data.draw(diagrams(program, batch.events())))
    assert Counter(map(as_json, outputs)) == Counter(as_json(output.value) for output in expected.outputs)
    assert state == expected.state


def _with_rank(batch, rank):
    return type(batch).of(
        batch.stream, rank=rank, tags=batch.tags, ts=batch.ts, seq=batch.seq, payload=batch.payload
    )
