"""Wrong compilers: the properties of random flows find each of them."""

import pytest

from dgs.errors import DgsError
from dgs.flow.closing import UnorderedCloser
from dgs.flow.flow_program import FINAL, FlowProgram, Work
from dgs.testing import run_plans
from tests.dgs.flow import flows


def without_last_block(self, state, clock, ts, due=FlowProgram._due):
    return (block for block in due(self, state, clock, ts) if block < state["span"][1])


def one_block_a_tick(self, state, clock, ts, due=FlowProgram._due):
    return iter([block for block in [next(due(self, state, clock, ts), None)] if block is not None])


def skipped_markers_forgotten(self, number, key, record):
    record[1] = self.block


CLOSE = UnorderedCloser.close


def start_not_advanced(self, parts, store, *block):
    yield from CLOSE(self, parts, store, *block)
    store["start"] = self._template.initial_state()


def span_of_first_item(self, stream, ts, value, items=FlowProgram.items):
    return [made for made in items(self, stream, ts, value) if made[1] is not None]


SEQUENTIAL = [
    (FlowProgram, "_due", without_last_block),
    (FlowProgram, "_due", one_block_a_tick),
    (Work, "_catch_up", skipped_markers_forgotten),
    (UnorderedCloser, "close", start_not_advanced),
    (FlowProgram, "items", span_of_first_item),
]


@pytest.mark.parametrize(("cls", "name", "wrong"), SEQUENTIAL, ids=lambda it: getattr(it, "__name__", it))
def test_wrong_program_differs_from_the_definition_of_the_flow(monkeypatch, cls, name, wrong):
    monkeypatch.setattr(cls, name, wrong)
    cases = map(flows.case, (271, *range(60)))  # seed 271: its last elements are filtered
    assert any(flows.counted(output.value for output in case.run().outputs) != case.means() for case in cases)


def released_early(self, number, key, record):
    end = self.program.graph.clock.end_of(record[1])
    Work(self.program, self.state, self.sink, record[1], end, cls=self.cls).mark(number, key, record)


def test_outputs_of_markers_that_do_not_wait_for_their_tick_have_other_ids(monkeypatch):
    def ids(run):
        return sorted((*output.key[:3], str(output.tag), output.index) for output in run.outputs)

    monkeypatch.setattr(Work, "_catch_up", released_early)
    cases = (case for case in map(flows.case, range(400)) if "marks" not in case.inputs)
    assert any(ids(case.run([FINAL])) != ids(case.run([*range(-20, 250), FINAL])) for case in cases)


def parts_not_joined(self, left, right, join=FlowProgram.join):
    return join(self, left, {**right, "parts": {}})


def span_not_joined(self, left, right, join=FlowProgram.join):
    return join(self, left, {**right, "span": left["span"] and right["span"]})


def class_ignored_by_fork(self, state, left, right):
    keyed = state["keyed"]
    one, other = FORK(self, {**state, "keyed": {}}, left, right)
    one["keyed"] = keyed
    return one, other


def tail_lost(self, state, left, right):
    one, other = FORK(self, state, left, right)
    one["tail"] = other["tail"] = None
    return one, other


FORK = FlowProgram.fork
UNDER_PLANS = [
    ("join", parts_not_joined),
    ("join", span_not_joined),
    ("fork", class_ignored_by_fork),
    ("fork", tail_lost),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "wrong"), UNDER_PLANS, ids=lambda it: getattr(it, "__name__", it))
def test_wrong_program_fails_under_some_plan(monkeypatch, name, wrong):
    monkeypatch.setattr(FlowProgram, name, wrong)
    with pytest.raises((AssertionError, DgsError)):
        try_plans(range(60))


def try_plans(seeds):
    for seed in seeds:
        case = flows.case(seed)
        streams = {name: rows for name, rows in case.streams().items() if rows}
        if any(case.inputs.values()):
            run_plans(case.made.program, streams, 3, seed=seed)
