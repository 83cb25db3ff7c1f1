"""The trial of a program: the costs of its functions on the first events of its streams."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from dgs.errors import UserCodeError
from dgs.model.events import EventBatch
from dgs.model.program import Program
from dgs.model.tags import Tag
from dgs.planner.prediction.costs import TYPICAL
from dgs.workers.trial import trial as trials
from dgs.workers.trial.stopwatch import Stopwatch
from dgs.workers.trial.trial import sentence_of, trial


class Summing(Program):
    """Takes over 100 ns per event of kind `n` in `update_batch`, and nothing per call or for other kinds."""

    kinds = ("n", "free")

    def init(self):
        return 0

    def update(self, state, event, emit):
        return state + event.payload

    def update_batch(self, state, batch, emit):
        return state + sum(i % 7 for i in range(8 * len(batch) * (batch.tags[0].kind == "n")))


def numbers(count, *tags, codes=None):
    tags = [Tag(tag) for tag in tags or ["n"]]
    return EventBatch.of("s", rank=0, tags=tags, ts=range(count), payload=list(range(count)), codes=codes)


def test_an_event_of_a_short_batch_has_the_cost_of_update_batch():
    assert trial(Summing(), [numbers(40)]).costs.column("n") > 50e-9


def test_a_batch_has_the_events_of_all_streams_in_order():
    """In the batch of one stream, times have gaps that are not there in a run, and a program may emit for each."""
    tried = []

    class Gaps(Summing):
        def update_batch(self, state, batch, emit):
            tried.append((batch.ts.tolist(), batch.payload.tolist()))
            return state

    even = EventBatch.of("even", rank=0, tags=[Tag("n")], ts=range(0, 40, 2), payload=np.arange(20))
    odd = EventBatch.of("odd", rank=1, tags=[Tag("n", 1)], ts=range(1, 61, 2), payload=np.arange(30))
    other = EventBatch.of("other", rank=2, tags=[Tag("n", 2)], ts=range(5), payload=np.ones(5))
    assert trial(Gaps(), [even, odd, other]).problem is None
    assert max(tried) == (list(range(39)), [i // 2 for i in range(39)])


def test_events_behind_the_end_of_another_stream_are_tried_only_if_their_kind_has_no_others():
    """Behind the sample of the values only marks would come, each with an empty state."""
    closed = []

    class Windows(Program):
        kinds = ("n", "mark", "late")

        def init(self):
            return []

        def update(self, state, event, emit):
            if event.tag.kind == "n":
                return [*state, event.payload]
            if event.tag.kind == "mark":
                closed.append(len(state))
            return []

    marks = replace(numbers(1000, "mark"), stream="marks", rank=1, ts=np.arange(1000) * 20)
    late = replace(numbers(10, "late"), stream="late", rank=2, ts=np.arange(10) + 15_000)
    costs = trial(Windows(), [numbers(1000), marks, late]).costs
    assert closed[1:] == [20] * (len(closed) - 1)
    assert len(closed) == 50
    assert costs.kinds.keys() == {"n", "mark", "late"}


def test_a_single_event_does_not_show_the_cost_of_one_in_a_batch():
    assert trial(Summing(), [numbers(1)]).costs.column_kinds == {}


def test_events_in_batches_have_costs_of_their_kind():
    costs = trial(Summing(), [numbers(2000, "n", "free", codes=[0, 1] * 1000)]).costs
    assert costs.column("n") > 10 * costs.column("free")


def test_kinds_without_events_cost_what_most_kinds_cost():
    class Rarely(Summing):
        def update(self, state, event, emit):
            if event.tag.kind == "dear":
                time.sleep(1e-3)
            return state

        def update_batch(self, state, batch, emit):
            if batch.tags[0].kind == "dear":
                time.sleep(1e-5 * len(batch))
            return state

    costs = trial(Rarely(), [numbers(1000, "a", "b", "dear", codes=[0, 1, 0, 1, 2] * 200)]).costs
    assert costs.event("dear") > 20 * costs.event("unseen")
    assert costs.column("dear") > 20 * costs.column("unseen")


def test_batches_are_tried_at_length_with_the_state_of_a_run_whatever_the_first_call_imports():
    tried = []

    class Importing(Summing):
        def update_batch(self, state, batch, emit):
            if not tried:
                time.sleep(0.1)
            tried.append((state, len(batch)))
            return super().update_batch(state, batch, emit)

    trial(Importing(), [numbers(1000)])
    assert max(length for _, length in tried) == 1000
    assert all(state > 0 for state, _ in tried)


def test_a_program_that_waits_has_the_costs_of_its_waiting():
    class Waiting(Summing):
        def update(self, state, event, emit):
            time.sleep(2e-3)
            return state

    assert trial(Waiting(), [numbers(10)]).costs.event("n") > 1.5e-3


def test_time_of_other_processes_does_not_count(monkeypatch):
    watch = Stopwatch()
    monkeypatch.setattr(time, "perf_counter", lambda: 1e9)  # the time in which this process had no core
    assert watch.seconds() < 60


def test_costs_of_a_program_before_it_raises_are_known():
    class Failing(Summing):
        def update(self, state, event, emit):
            if event.payload > 100:
                raise ValueError("too large")
            return state + sum(range(2000))

        def update_batch(self, state, batch, emit):
            raise ValueError("later")

    found = trial(Failing(), [numbers(200)])
    assert found.problem == "it raised ValueError: too large"
    assert found.costs.event("n") > 2e-6
    assert found.costs.fork == TYPICAL.fork


def test_an_error_of_user_code_is_reported_without_its_traceback():
    error = UserCodeError(
        trace="Traceback ...", function="read", program="P", error="ValueError: no", where=""
    )
    assert sentence_of(error) == "read of program P raised ValueError: no"


class Plain(Program):
    """Its values are compiled, its texts are not."""

    kinds = ("n", "text")

    def init(self):
        return 0

    def update(self, state, event, emit):
        if event.tag.kind == "n":
            return state + event.payload
        return state + len(f"{event.payload}")


def test_an_update_that_is_compiled_is_tried_so():
    pytest.importorskip("llvmlite")
    batch = numbers(2000)
    # a list would be converted to an array in each call
    costs = trial(Plain(), [replace(batch, payload=batch.ts)]).costs
    assert costs.compiled("n") < 0.2 * costs.event("n")
    assert 0 < costs.compiled_call < 0.1


@pytest.mark.parametrize("streams", [1, 2])
def test_beside_an_update_batch_a_compiled_update_is_tried_for_several_streams(streams):
    pytest.importorskip("llvmlite")
    batches = [replace(numbers(500), stream=f"s{i}", rank=i, payload=np.arange(500)) for i in range(streams)]
    assert bool(trial(Summing(), batches).costs.compiled_kinds) == (streams > 1)


def test_what_a_compiled_call_does_once_for_each_key_is_no_cost_of_its_later_events(monkeypatch):
    folded = []

    class Clock:
        def seconds(self):
            return 1e-4 + 1e-6 * min(500, folded[-1]) + 1e-8 * folded[-1]

    monkeypatch.setattr(trials, "Stopwatch", Clock)
    trying = trials._Trying(Summing(), [numbers(4096)], [])
    trying._state = 0
    found = list(trying._in_columns(lambda _, part, __: folded.append(len(part)), 0.0, apart=0.5))
    ((_, each, call, more),) = found
    assert each == pytest.approx(1e-8)
    assert call == pytest.approx(1e-4, rel=0.02)
    assert more == pytest.approx(5e-4, rel=0.02)


def test_an_update_that_is_not_compiled_costs_what_the_interpreter_needs():
    costs = trial(Plain(), [numbers(200, "text")]).costs
    assert costs.compiled("text") in (None, costs.event("text"))
    assert trial(Summing(), [numbers(200)]).costs.compiled_kinds == {}


class Ruled(Program):
    """Its `tx` are compiled only for keys without an entry: entries are lists."""

    kinds = ("rule", "tx")

    def init(self):
        return {}

    def update(self, state, event, emit):
        key = event.tag.key
        if event.tag.kind == "rule":
            state[key] = [event.payload % 97]
        elif sum(event.payload > limit for limit in state.get(key, (50, 30))) == 2:
            emit(event.payload)
        return state


def test_an_update_that_is_refused_after_its_first_call_is_interpreted_and_no_problem():
    pytest.importorskip("llvmlite")
    rows = np.arange(400)
    tx = EventBatch.of(
        "t", rank=0, tags=[Tag("tx", 0), Tag("tx", 1)], ts=rows, payload=rows, codes=(rows > 0).astype(int)
    )
    rule = EventBatch.of("r", rank=1, tags=[Tag("rule", 1)], ts=[0, 1], payload=[3, 4])
    found = trial(Ruled(), [tx, rule])
    assert (found.problem, found.costs.compiled("tx")) == (None, None)
    assert found.costs.is_interpreted


def test_an_update_of_rows_of_many_columns_costs_the_making_of_its_events():
    plain = numbers(3000)
    wide = EventBatch.of(
        "s", rank=0, tags=plain.tags, ts=plain.ts, payload={f"column{i}": plain.ts for i in range(30)}
    )

    class Counting(Program):
        def init(self):
            return 0

        def update(self, state, event, emit):
            return state + 1

    narrow, broad = (trial(Counting(), [batch]).costs.event("n") for batch in (plain, wide))
    assert broad > 2 * narrow


class Telling(Program):
    """Emits a record for each event of kind `n`, and nothing for others."""

    def init(self):
        return 0

    def update(self, state, event, emit):
        if event.tag.kind == "n":
            emit({"sum": state, "parts": ["a", {"b": None}, [state]]})
        return state + event.payload


def test_costs_of_outputs_include_the_sinks_of_the_job():
    events = [numbers(2000, "n", "free", codes=[0, 1] * 1000)]
    dropped, written, both = (
        trial(Telling(), events, sinks).costs for sinks in (["none"], ["jsonl"], ["jsonl", "sqlite"])
    )
    assert 1.5 * dropped.event("n") < written.event("n") < both.event("n")
    assert dropped.event("free") + 1e-6 > written.event("free")


def test_a_program_that_emits_columns_is_tried():
    class Columns(Summing):
        emits_columns = True

        def update(self, state, event, emit):
            emit.column([event.payload] * 3)
            return state

    found = trial(Columns(), [numbers(200)], ["jsonl"])
    assert found.problem is None
    assert found.costs.kinds.keys() == {"n"}


def test_forks_are_tried_with_the_tags_of_the_events_on_a_state_that_keeps_its_keys():
    sizes = []

    class Counting(Program):
        def init(self):
            return {}

        def update(self, state, event, emit):
            return {**state, event.tag.key: event.payload}

        def fork(self, state, left, right):
            sides = [
                {key: one for key, one in state.items() if Tag("n", key) in side} for side in (left, right)
            ]
            sizes.append([len(side) for side in sides])
            return tuple(sides)

        def join(self, left, right):
            return {**left, **right}

    tags = [Tag("n", key) for key in range(100)]
    batch = EventBatch.of(
        "s", rank=0, tags=tags, ts=range(500), payload=list(range(500)), codes=list(range(100)) * 5
    )
    costs = trial(Counting(), [batch]).costs
    assert sizes
    assert all(side == [50, 50] for side in sizes)
    assert costs.encoding > 0
    assert costs.fork > costs.join


def test_a_fork_that_takes_no_such_tags_is_tried_without():
    class Choosy(Summing):
        def fork(self, state, left, right):
            if left or right:
                raise ValueError("not these")
            return state, 0

        def join(self, left, right):
            return left + right

    found = trial(Choosy(), [numbers(200)])
    assert found.problem is None
    assert found.costs.fork != TYPICAL.fork


def test_a_short_join_is_timed_on_many_states_at_once():
    joins = []

    class Joining(Summing):
        def fork(self, state, left, right):
            return state, 0

        def join(self, left, right):
            joins.append(right)
            return left + right

    assert trial(Joining(), [numbers(200)]).problem is None
    assert len(joins) > 100


def test_a_call_of_update_batch_has_a_cost_of_its_own():
    class Preparing(Summing):
        def update_batch(self, state, batch, emit):
            return state + sum(range(20_000))

    assert trial(Preparing(), [numbers(2000)]).costs.column_calls["n"] > 20e-6
    assert trial(Summing(), [numbers(2000)]).costs.column_calls["n"] < 20e-6
