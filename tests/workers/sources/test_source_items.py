"""Events from Python: items of memory sources and of generators."""

import textwrap
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dgs
from dgs.errors import MalformedRowError, MissingInputError, ProgramImportError, UsageError, UserCodeError
from dgs.model.events import Event, EventBatch
from dgs.model.order import Heartbeat
from dgs.model.tags import Tag
from tests.workers.reading import events, opened, read_all, readings, rows, stream

VIEW, VALUE = Tag("view", "a"), Tag("value")


class Ones(dgs.Program):
    """Emits each payload."""

    kinds = (dgs.kind("value"), dgs.kind("other"))

    def init(self):
        return None

    def update(self, state, event, emit):
        emit(event.payload)


def test_items_may_be_events_or_tuples_with_any_spelling_of_the_tag():
    items = [Event(VIEW, "elsewhere", 1, "x"), (VALUE, 2, None), ("value", 3, 1), (("view", "a"), 4, 2)]
    assert events(stream(), items) == [(VIEW, 1, "x"), (VALUE, 2, None), (VALUE, 3, 1), (VIEW, 4, 2)]


def test_items_of_all_forms_are_one_stream_with_rows_numbered_through():
    batch = EventBatch.of(
        "elsewhere", rank=9, tags=[VIEW, VALUE], ts=[2, 3], seq=[70, 80], codes=[0, 1], payload=["p", "q"]
    )
    items = [
        (VALUE, 1, "a"),
        batch,
        Heartbeat("s", 3),
        {"ts": [4, 5], "payload": np.array([1, 2])},
        pa.table({"ts": [6], "payload": ["t"]}),
        pa.record_batch({"ts": [7], "payload": ["r"]}),
        (VALUE, 8, "z"),
    ]
    for batch_rows in (1, 3, 100):
        found = read_all(stream(), items, rank=2, batch_rows=batch_rows)
        assert [(name, tag, ts, seq, payload) for name, tag, ts, seq, payload in found] == [
            ("s", VALUE, 1, 0, "a"), ("s", VIEW, 2, 1, "p"), ("s", VALUE, 3, 2, "q"), ("s", VALUE, 4, 3, 1),
            ("s", VALUE, 5, 4, 2), ("s", VALUE, 6, 5, "t"), ("s", VALUE, 7, 6, "r"), ("s", VALUE, 8, 7, "z"),
        ]  # fmt: skip


def test_memory_may_be_one_table():
    for data in ({"ts": [1, 2], "payload": ["a", "b"]}, pa.table({"ts": [1, 2], "payload": ["a", "b"]})):
        assert events(stream(), data) == [(VALUE, 1, "a"), (VALUE, 2, "b")]


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=4,
)


@given(st.lists(values, max_size=8), st.integers(1, 9))
def test_payloads_come_out_as_they_went_in(payloads, batch_rows):
    found = events(stream(), [(VALUE, 0, payload) for payload in payloads], batch_rows=batch_rows)
    assert [repr(payload) for _, _, payload in found] == [repr(payload) for payload in payloads]


def test_records_of_different_fields_come_out_as_they_went_in():
    records = [{"a": 1}, {"a": 2, "b": 3}, {}, {"b": 1}]
    assert [
        payload for _, _, payload in events(stream(), [(VALUE, 0, record) for record in records])
    ] == records


@pytest.mark.parametrize(
    ("items", "row", "said"),
    [
        ([(VALUE, 1, 0), (VALUE, None, 0)], 1, "the timestamp is missing or null"),
        ([(VALUE, 1, 0), (5, 1, 0)], 1, "5 is not a tag"),
        ([(VALUE, 1, 0), (("view", 7), 1, 0)], 1, "key 7 of kind 'view' must be str, not int"),
        ([(VALUE, 1, 0), (VALUE, 1)], 1, "(value, 1) is not an event: expected (tag, ts, payload)"),
        (
            [(VALUE, 1, 0), {"ts": 2, "payload": 0}],
            1,
            "memory 'data' holds a dictionary whose 'ts' is 2, which is no column",
        ),
        (
            [{"ts": [1, 2], "payload": "ab"}],
            0,
            "memory 'data' holds a dictionary whose 'payload' is 'ab', which",
        ),
        ([(VALUE, 1, 0), 17], 1, "memory 'data' holds int; expected (tag, ts, payload), Event"),
        ([{"ts": [1, 2], "a": [1]}], 0, "the columns of memory 'data' differ in length: {'ts': 2, 'a': 1}"),
        ([Heartbeat("s", "soon")], 0, "'soon' is not an ISO-8601 time"),
    ],
)
def test_wrong_item_names_its_row(items, row, said):
    with pytest.raises(MalformedRowError) as caught:
        read_all(stream(), items)
    assert caught.value.row == row
    assert caught.value.problem.startswith(said)


def test_memory_that_is_not_given_is_missing():
    with pytest.raises(MissingInputError, match=r"stream 's': no file at memory 'data' \(given: nothing\)"):
        opened(stream())


def test_memory_that_can_be_read_once_is_refused():
    with pytest.raises(UsageError, match="can be read only once: give a list"):
        opened(stream(), iter([]))


GENERATORS = """
    import numpy as np
    import pyarrow as pa
    from dgs import EventBatch, Heartbeat, Tag

    def numbers(count, step=1):
        for start in range(0, count, 2):
            yield {"ts": np.arange(start, start + 2) * step, "payload": ["a", "b"]}

    def mixed():
        yield pa.table({"ts": [1, 2], "payload": ["x", "y"]})
        yield EventBatch.of("any", rank=0, tags=[Tag("barrier")], ts=[3])
        yield Heartbeat("any", 4)
        yield ("value", 5, "z")

    def broken():
        yield ("value", 5, "z")
        raise KeyError("gone")

    constant = 7
"""


@pytest.fixture
def generators(tmp_path):
    (tmp_path / "made.py").write_text(textwrap.dedent(GENERATORS))

    def config(name, **args):
        return stream({"generator": {"ref": f"made.py:{name}", "args": args}})

    return config


def test_generator_is_called_with_its_arguments(tmp_path, generators):
    found = events(generators("numbers", count=4, step=10), base_dir=tmp_path)
    assert found == [(VALUE, 0, "a"), (VALUE, 10, "b"), (VALUE, 20, "a"), (VALUE, 30, "b")]


def test_generator_may_yield_all_forms(tmp_path, generators):
    found = readings(opened(generators("mixed"), base_dir=tmp_path))
    assert [(tag, ts, seq, p) for _, tag, ts, seq, p in rows(b for r in found for b in r.batches)] == [
        (VALUE, 1, 0, "x"), (VALUE, 2, 1, "y"), (Tag("barrier"), 3, 2, None), (VALUE, 5, 3, "z"),
    ]  # fmt: skip


def test_generator_is_read_no_further_than_asked(tmp_path, generators):
    source = opened(generators("numbers", count=10**12), base_dir=tmp_path)
    assert len(source.read().batches[0]) == 2
    source.close()
    source.close()


def test_generator_that_raises_shows_the_users_traceback(tmp_path, generators):
    source = opened(generators("broken"), base_dir=tmp_path)
    with pytest.raises(UserCodeError) as caught:
        readings(source)
    assert 'raise KeyError("gone")' in str(caught.value)
    last = str(caught.value).splitlines()[-1]
    assert last == "made.py:broken of program Kinds raised KeyError: 'gone' for stream 's', after 1 items"


@pytest.mark.parametrize("name", ["constant", "absent"])
def test_generator_that_is_no_function_is_refused_at_once(tmp_path, generators, name):
    with pytest.raises(ProgramImportError, match=f"made.py:{name}"):
        opened(generators(name), base_dir=tmp_path)


@pytest.mark.parametrize(
    ("parts", "counted"),
    [
        ({"payload": np.arange(2)}, "2 payloads"),
        ({"payload": [1, 2, 3, 4]}, "4 payloads"),
        ({"payload": {"a": np.arange(3), "b": np.arange(1)}}, "1 payloads"),
        ({"payload": 5}, "1 payloads"),
        ({"codes": np.array([0, 1], np.int32)}, "2 codes"),
    ],
)
def test_a_batch_whose_parts_differ_in_length_is_refused(parts, counted):
    """Machine code would read beyond their ends."""
    batch = replace(EventBatch.of("s", rank=0, tags=[VIEW, VALUE], ts=[1, 2, 3]), **parts)
    with pytest.raises(MalformedRowError, match=f"an EventBatch of 3 events with {counted}"):
        events(stream(), [batch])


def test_a_code_beyond_the_tags_of_a_batch_with_payloads_names_its_row():
    batch = EventBatch.of("s", rank=0, tags=[VIEW, VALUE], ts=[1, 2], codes=[0, 2], payload=np.arange(2))
    with pytest.raises(MalformedRowError, match="code 2 is not one of the 2 tags"):
        events(stream(), [batch])


def test_a_code_beyond_32_bits_is_none_of_the_tags():
    batch = EventBatch.of("s", rank=0, tags=[VIEW, VALUE], ts=[1, 2], codes=np.array([0, 2**32 + 1]))
    with pytest.raises(MalformedRowError, match="code 2147483647 is not one of the 2 tags"):
        events(stream(), [batch])


@pytest.mark.parametrize("code", [-1, 2])
def test_a_code_that_is_none_of_the_tags_of_its_batch_names_its_row(code):
    batch = EventBatch.of("s", rank=0, tags=[VIEW, VALUE], ts=[1, 2, 3], codes=[0, 1, code])
    with pytest.raises(MalformedRowError, match=f"code {code} is not one of the 2 tags") as caught:
        events(stream(), [(VALUE, 0, None), batch])
    assert caught.value.row == 3


@pytest.mark.parametrize(
    "item",
    [
        17,
        {1, 2},
        {"ts": 1},
        {"ts": [1], "payload": {"a": 5}},
        {"ts": [1], "tag": np.zeros((1, 2))},
        {"ts": [1], "tag": [np.zeros(2)]},
        {"ts": [1], "tag": [{1, 2}]},
    ],
)
def test_a_wrong_item_beside_a_right_one_is_skipped(item):
    settings = {"on_error": "skip"}
    run = dgs.run(Ones, streams={"s": [("value", 0, 1), item]}, runtime="local", settings=settings)
    assert run.outputs == [1]
    assert run.report["skipped"] == 1


def test_single_events_of_a_slow_generator_do_not_wait_for_many_others(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("dgs.workers.sources.readers.items.time", SimpleNamespace(monotonic=lambda: now[0]))

    class Slow(list):
        def __iter__(self):
            for number, item in enumerate(super().__iter__()):
                now[0] += self.seconds if number >= self.burst else 0
                yield item

    sizes = []
    for seconds, burst in ((0, 0), (0.004, 0), (1.0, 0), (1.0, 65)):
        items = Slow((VALUE, number, None) for number in range(1000))
        items.seconds, items.burst = seconds, burst
        source = opened(stream(), items)
        sizes.append([len(batch) for reading in readings(source) for batch in reading.batches])
    assert sizes[0] == [1000]
    assert max(sizes[1]) <= 0.1 / 0.004 + 1
    assert set(sizes[2]) == {1}
    assert (sizes[3][0], set(sizes[3][1:])) == (66, {1})
