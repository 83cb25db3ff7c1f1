"""`update_batch` and `update_windows` of the experiments equal folding `update`, however a batch is split, outputs included."""

import copy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dgs
from dgs.job.loading import load_callable
from dgs.model.columns import to_list
from dgs.model.outputs import OutputBatch

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
HUGE = 2**62

brief = settings(max_examples=30, deadline=None)


@dataclass(frozen=True)
class Subject:
    name: str
    program: dgs.Program
    tags: tuple[dgs.Tag, ...]
    payloads: st.SearchStrategy


def load(folder, name):
    return load_callable(f"program.py:{name}", EXPERIMENTS / folder)()


def keyed(keys):
    return tuple(dgs.Tag(kind, key) for key in keys for kind in ("view", "update"))


def bank(amounts):
    return (dgs.Tag("transaction"), dgs.Tag("rule")), amounts


AMOUNTS = st.integers(0, 9).map(lambda n: n * 500) | st.sampled_from([-1500, -1, HUGE, -HUGE])
SUBJECTS = [
    Subject(
        "event_window",
        load("event_window", "EventWindow"),
        (dgs.Tag("value"), dgs.Tag("barrier")),
        st.integers(-9, 9) | st.sampled_from([HUGE, -HUGE]),
    ),
    Subject("page_view_join", load("page_view_join", "PageViewJoin"), keyed((0, 1)), st.integers()),
    Subject("fraud", load("fraud_detection", "FraudDetection"), *bank(AMOUNTS)),
    Subject("fraud_cyclic", load("fraud_detection", "CyclicFraudDetection"), *bank(AMOUNTS)),
]
every_program = pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.name)


def payload_column(draw, payloads):
    """Draw a form for a column: a list, a NumPy array, Arrow, or records by name."""
    if payloads and isinstance(payloads[0], dict) and draw(st.booleans()):
        return {name: payload_column(draw, [p[name] for p in payloads]) for name in payloads[0]}
    form = draw(st.sampled_from(["list", "numpy", "arrow"]))
    try:
        if form == "numpy":
            array = np.array(payloads, dtype=np.int64)
            return array if array.tolist() == payloads else payloads
        return pa.array(payloads) if form == "arrow" else payloads
    except (OverflowError, TypeError, ValueError, pa.ArrowException):
        return payloads


@st.composite
def batches(draw, subject, tags=None):
    """Draw a batch of one stream, with tags that may not all occur."""
    tags = tags or draw(st.lists(st.sampled_from(subject.tags), min_size=1, unique=True))
    size = draw(st.integers(0, 12))
    codes = [draw(st.integers(0, len(tags) - 1)) for _ in range(size)]
    payload = payload_column(draw, [draw(subject.payloads) for _ in range(size)])
    return dgs.EventBatch.of(
        "s",
        rank=0,
        tags=tags,
        ts=sorted(draw(st.integers(0, 5)) for _ in range(size)),
        codes=None if len(tags) == 1 and draw(st.booleans()) else codes,
        payload=payload,
    )


@st.composite
def states(draw, subject):
    """Draw a state that events lead to."""
    state = subject.program.init()
    for event in draw(batches(subject)).events():
        state = subject.program.update(state, event, lambda _: None)
    return state


def exact(value):
    """Return a value that equals another only if all nested types are the same."""
    if isinstance(value, dict):
        return "dict", tuple((name, exact(inner)) for name, inner in sorted(value.items()))
    if isinstance(value, (tuple, list)):
        return type(value), tuple(map(exact, value))
    return type(value), value


def one_by_one(program, state, batch):
    """Fold `update` over a batch: the outputs, each with (seq, index), and the state."""
    found = []
    for seq, event in zip(batch.seq.tolist(), batch.events(), strict=True):
        emitted = []
        state = program.update(state, event, emitted.append)
        found += [(seq, index, exact(value)) for index, value in enumerate(emitted)]
    return found, exact(state)


def vectorised(program, state, batch, cuts):
    """Call `update_batch` for each part of a batch."""
    found = []

    def emit_batch(values, rows=None):
        out = OutputBatch.of_rows(part, values, rows)
        found.extend(zip(out.seq.tolist(), out.index.tolist(), map(exact, out.to_list()), strict=True))

    for start, stop in zip([0, *cuts], [*cuts, len(batch)], strict=True):
        part = batch.cut(start, stop)
        state = program.update_batch(state, part, emit_batch)
    return found, exact(state)


@every_program
@brief
@given(data=st.data())
def test_update_batch_of_all_parts_is_update_of_all_events(subject, data):
    batch = data.draw(batches(subject))
    state = data.draw(states(subject))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(batch)), max_size=3)))
    expected = one_by_one(subject.program, copy.deepcopy(state), batch)
    assert vectorised(subject.program, state, batch, cuts) == expected


@brief
@given(data=st.data())
def test_update_windows_are_folds_from_the_identity(data):
    subject = SUBJECTS[0]
    batch = data.draw(batches(subject, tags=[dgs.Tag("value")]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(batch)), max_size=4)))
    windows = subject.program.update_windows(batch, np.array(cuts, dtype=np.int64))
    expected = [
        one_by_one(subject.program, subject.program.identity(), batch.cut(start, stop))
        for start, stop in zip([0, *cuts], [*cuts, len(batch)], strict=True)
    ]
    assert [([], exact(state)) for state in to_list(windows)] == expected


@given(amount=st.integers(-(2**63), 2**63 - 1), model=st.integers())
@example(amount=-(2**63), model=192)
def test_fraudulent_amounts_equal_the_model_modulo_1000(amount, model):
    fraudulent = load_callable("program.py:fraudulent", EXPERIMENTS / "fraud_detection")
    expected = [0] if (amount - model) % 1000 == 0 else []
    assert fraudulent(np.array([amount]), model).tolist() == expected


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint32, np.uint64])
def test_amounts_of_any_width_are_judged_alike(dtype):
    fraudulent = load_callable("program.py:fraudulent", EXPERIMENTS / "fraud_detection")
    assert fraudulent(np.array([7, 100, 7], dtype=dtype), 3007).tolist() == [0, 2]
