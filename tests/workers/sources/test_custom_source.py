"""Users' sources: rows in all forms, bookmarks, live sources, and their mistakes."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgs import codec
from dgs.errors import (
    ConnectorError,
    MalformedRowError,
    OutOfOrderError,
    ProgramImportError,
    SourceChangedError,
    UserCodeError,
)
from dgs.model.events import Event, EventBatch
from dgs.model.order import END, Heartbeat, OrderKey
from dgs.model.tags import Tag
from dgs.workers.sources.custom_source import MOST, Bookmark, Bookmarks, ConnectedSource
from dgs.workers.sources.rows import LiveTime
from tests.workers.reading import opened, read_all, readings, rows, stream
from tests.workers.sources.custom_sources import Numbers


@pytest.fixture(autouse=True)
def without_traces(monkeypatch):
    """Remove loaded modules and their import paths after a test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("dgs_file_"):
            del sys.modules[name]


NUMBERS = "tests.workers.sources.custom_sources:Numbers"
TRICKLE = "tests.workers.sources.custom_sources:Trickle"
SILENT = "tests.workers.sources.custom_sources:Silent"


def numbers(items, *, ref=NUMBERS, size=2, name="numbers", **sections):
    args = {"rows": [list(item) for item in items], "size": size, "name": name}
    return stream({"custom": {"ref": ref, "args": args}}, payload="value", **sections)


def written(tmp_path, body, **options):
    """Return an opened source whose class, Broken, has this body."""
    (tmp_path / "broken.py").write_text(f"class Broken:\n{body}\n    def describe(self): return 1\n")
    return opened(stream({"custom": {"ref": "broken.py:Broken", **options}}), base_dir=tmp_path)


def values(source):
    return [(ts, seq, value) for _, _, ts, seq, value in rows(b for r in readings(source) for b in r.batches)]


def test_rows_come_in_their_order_with_their_numbers():
    items = [(1, "a"), (2, "b"), (2, "c")]
    assert values(opened(numbers(items))) == [(1, 0, "a"), (2, 1, "b"), (2, 2, "c")]


EVENTS = [("value", 1, 10), ("value", 2, 20)]
FORMS = {
    "columns": "{'ts': [1, 2], 'payload': [10, 20]}",
    "a table": "__import__('pyarrow').table({'ts': [1, 2], 'payload': [10, 20]})",
    "single events": "[('value', 1, 10), ('value', 2, 20)]",
    "heartbeats among them": "[('value', 1, 10), Heartbeat('s', 1), ('value', 2, 20)]",
    "events": "[Event(Tag('value'), 'x', 1, 10), Event(Tag('value'), 'x', 2, 20)]",
    "a batch": "EventBatch.of('x', rank=7, tags=[Tag('value')], ts=[1, 2], payload=[10, 20])",
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_may_have_any_form(tmp_path, form):
    names = {"Event": Event, "EventBatch": EventBatch, "Heartbeat": Heartbeat, "Tag": Tag}
    lines = "".join(f"from {one.__module__} import {name}\n" for name, one in names.items())
    text = f"{lines}class One:\n    def read(self, after): yield {FORMS[form]}, 1\n    def describe(self): return 1\n"
    (tmp_path / "one.py").write_text(text)
    config = stream({"custom": {"ref": "one.py:One"}}, payload="payload")
    assert read_all(config, base_dir=tmp_path) == read_all(stream(), EVENTS)


sizes = st.integers(1, 4)
gaps = st.lists(st.integers(0, 2), max_size=40)
policies = st.sampled_from(["error", "drop", {"sort_within": "3ms"}])


def disordered(steps, jitter):
    """Return rows whose times go up by `steps`, and sometimes back by up to 3."""
    ts, found = 0, []
    for number, step in enumerate(steps):
        ts += step
        found.append((max(ts - jitter[number % len(jitter)], 0), number))
    return found


@settings(max_examples=75)
@given(gaps, st.lists(st.integers(0, 3), min_size=1, max_size=5), sizes, policies, st.data())
def test_resuming_gives_all_new_rows_and_nothing_else(steps, jitter, size, policy, data):
    """Whatever the source had read at the checkpoint, and from whichever of its positions the run resumes."""
    items = disordered(steps, [0] if policy == "error" else jitter)
    config = numbers(items, size=size, on_disorder=policy)
    options = {"rank": 2, "unit": "ms", "batch_rows": data.draw(st.integers(1, 5))}
    whole = opened(config, **options)
    expected = rows(b for r in readings(whole) for b in r.batches)
    before = opened(config, **options)
    frontier = before.read().frontier
    while frontier != END and data.draw(st.booleans()):
        frontier = before.read().frontier
    bases = [OrderKey(ts, 2, seq) for _, _, ts, seq, _ in expected] + [
        OrderKey(ts, 1, 9) for ts in range(0, 80, 7)
    ]
    base = data.draw(st.sampled_from([key for key in bases if key <= frontier] or [OrderKey(-1, 2, 0)]))
    on = opened(config, **options)
    on.resume(codec.decode(codec.encode(dict(before.description))))
    on.skip_to(base)
    found = rows(b for r in readings(on) for b in r.batches)
    assert [row for row in found if (row[2], 2, row[3]) >= base[:3]] == [
        row for row in expected if (row[2], 2, row[3]) >= base[:3]
    ]
    assert found == expected[len(expected) - len(found) :]
    assert on.description["end"] == whole.description["end"]
    assert on.description["rows"] == whole.description["rows"]


def test_going_on_reads_from_the_last_position_that_will_do():
    items = [(ts, ts) for ts in range(100)]
    source = opened(numbers(items, size=5))
    readings(source)
    Numbers.reads.clear()
    on = opened(numbers(items, size=5))
    on.resume(source.description)
    on.skip_to(OrderKey(42, 0, 42))
    assert values(on)[0] == (40, 40, 40)
    assert Numbers.reads == [40]


def test_skipped_events_are_known_when_the_run_resumes():
    config = numbers([(ts, ts) for ts in range(20)])
    first, second, third = opened(config), opened(config), opened(config)
    readings(first)
    second.resume(first.description)
    second.skip_to(OrderKey(10, 0, 10))
    readings(second)
    third.resume(second.description)
    third.skip_to(OrderKey(7, 0, 7))
    assert values(third)[0][0] == 6


def test_bookmarks_are_few_and_recent_ones_are_all_there():
    marks = Bookmarks()
    for row in range(1, 10_001):
        marks.add(Bookmark(row, row, row, b""))
    found = [mark.row for mark in marks.all]
    assert len(found) <= MOST
    assert found[-MOST // 2 :] == list(range(10_001 - MOST // 2, 10_001))
    for row in range(1, 10_000, 97):
        nearest = marks.before(OrderKey(row, 0, 0)).row
        assert row - nearest <= (10_001 - row) / 2 + MOST


def test_pieces_without_rows_need_no_bookmarks_of_their_own():
    marks = Bookmarks()
    for count in range(3 * MOST):
        marks.add(Bookmark(0, position=b"%d" % count))
    assert [mark.position for mark in marks.all] == [b"%d" % (3 * MOST - 1)]


def test_identity_that_changed_is_refused():
    before = opened(numbers([(1, 1)], name="this"))
    readings(before)
    with pytest.raises(SourceChangedError, match="it was described as 'this', and is now 'that'"):
        opened(numbers([(1, 1)], name="that")).resume(before.description)


def test_answer_of_the_source_on_changes_is_accepted(tmp_path):
    body = "    def read(self, after): yield {'ts': [1]}, 1\n    def changed(self, before): return 'the table is new'"
    source = written(tmp_path, body)
    with pytest.raises(SourceChangedError, match="the table is new"):
        source.resume(source.description)


def test_closing_closes_the_source_once():
    Numbers.closed.clear()
    source = opened(numbers([(1, 1)]))
    readings(source)
    source.close()
    assert Numbers.closed == ["numbers"]


# live sources

TIME = LiveTime(linger=0, elapsed=lambda: 0)


def test_live_source_is_asked_again_and_ends_by_itself():
    source = opened(numbers([(1, "a"), (2, "b"), (3, "c")], ref=TRICKLE), time=TIME)
    first = source.read()
    assert first.batches == ()
    assert 0 < source.wait <= 0.01
    assert values(source) == [(1, 0, "a"), (2, 1, "b"), (3, 2, "c")]


def test_readers_that_do_not_follow_a_live_source_read_the_present_rows():
    source = opened(numbers([(1, "a")], ref=TRICKLE))
    assert values(source) == []


def test_live_source_has_heartbeats():
    now = [10**9]
    time = LiveTime(linger=0, elapsed=lambda: now[0], now=lambda: now[0])
    config = numbers([(1, "a")] * 9, ref=SILENT, heartbeat={"every": "10ms", "max_delay": "5ms"})
    source = opened(config, unit="ms", time=time)
    while (frontier := source.read().frontier).ts < 0:
        now[0] += 20 * 10**6
    assert frontier == OrderKey(now[0] // 10**6 - 5, 0, 0)


# what may be wrong

MISSING = [
    (
        "class Broken:\n    def describe(self): return 1",
        "class Broken has no method `read`, which a source needs",
    ),
    ("class Broken: pass", "class Broken has no method `describe` and `read`"),
    ("from dgs.connectors import Source\nclass Broken(Source): pass", "no method `describe` and `read`"),
    ("Broken = 7", "it is a int, not a class of a source"),
    ("def Broken(): return 7", "class int has no method"),
    (
        "class Broken:\n    def __init__(self): 1 / 0\n    def read(self, after): ...\n    def describe(self): ...",
        "making it with \\(\\) raised ZeroDivisionError",
    ),
    ("Other = 1", "broken.py has no 'Broken'"),
    (
        "class Broken:\n    async def read(self, after): yield\n    def describe(self): ...",
        "`read` is `async`, so a call does nothing",
    ),
]


@pytest.mark.parametrize(("text", "problem"), MISSING)
def test_other_values_than_sources_are_refused_before_anything_starts(tmp_path, text, problem):
    (tmp_path / "broken.py").write_text(text)
    with pytest.raises(ProgramImportError, match=problem) as caught:
        opened(stream({"custom": {"ref": "broken.py:Broken"}}), base_dir=tmp_path)
    assert caught.value.exit_code == 3


WRONG = [
    ("    def read(self, after): return 7", "`read` returned int, which is not iterable"),
    ("    def read(self, after): yield 7", "`read` yielded int, not a pair of rows and a position"),
    ("    def read(self, after): yield None", "set `is_live = True`"),
    ("    def read(self, after): yield {'ts': [1]}, None", "position None, which means the beginning"),
    ("    def read(self, after): yield {'ts': [1]}, object()", "yielded a position that is not plain data"),
]


@pytest.mark.parametrize(("body", "problem"), WRONG)
def test_wrong_results_of_read_are_named(tmp_path, body, problem):
    source = written(tmp_path, body)
    with pytest.raises(ConnectorError, match=problem) as caught:
        readings(source)
    assert caught.value.exit_code == 1
    assert "stream 's': source broken.py:Broken" in str(caught.value)


def test_wrong_results_of_describe_and_changed_are_named(tmp_path):
    text = (
        "class Broken:\n    def read(self, after): ...\n    def describe(self): return {}\n"
        "    def changed(self, before): return False\n"
    )
    (tmp_path / "broken.py").write_text(text)
    source = opened(stream({"custom": {"ref": "broken.py:Broken"}}), base_dir=tmp_path)
    with pytest.raises(ConnectorError, match="`changed` returned False"):
        source.resume(source.description)
    (tmp_path / "broken.py").write_text(text.replace("return {}", "return open"))
    source = opened(stream({"custom": {"ref": "broken.py:Broken"}}), base_dir=tmp_path)
    with pytest.raises(ConnectorError, match="`describe` did not return plain data"):
        _ = source.description


def test_its_exception_has_its_traceback(tmp_path):
    source = written(tmp_path, "    def read(self, after):\n        yield {'ts': [1]}, 1\n        1 / 0")
    with pytest.raises(UserCodeError) as caught:
        readings(source)
    assert "ZeroDivisionError" in caught.value.trace
    assert str(caught.value).endswith(
        "broken.py:Broken.read of program Kinds raised ZeroDivisionError: division by zero for stream 's', after 1 pieces"
    )


def test_rows_that_are_none_and_times_that_go_back_are_named(tmp_path):
    with pytest.raises(MalformedRowError, match=r"broken\.py:Broken holds int"):
        readings(written(tmp_path, "    def read(self, after): yield 7, 1"))
    with pytest.raises(OutOfOrderError, match="row 1: timestamp 1 comes after 2"):
        readings(opened(numbers([(2, 1), (1, 1)])))


def test_times_that_are_no_row_of_numbers_are_named(tmp_path):
    for times, problem in (
        ("np.zeros((2, 2), dtype=int)", "is not a timestamp"),
        ("np.ma.array([1, 2], mask=[0, 1])", "missing"),
    ):
        body = f"    import numpy as np\n    def read(self, after): yield {{'ts': self.np.{times[3:]}}}, 1"
        with pytest.raises(MalformedRowError, match=problem):
            readings(written(tmp_path, body))


def test_positions_may_be_any_plain_data(tmp_path):
    body = "    def read(self, after):\n        if after is None: yield {'ts': [1]}, {'file': ('a', 3), 'at': b'x'}"
    source = written(tmp_path, body)
    readings(source)
    (mark,) = source.description["bookmarks"]
    assert codec.decode(mark[3]) == {"file": ("a", 3), "at": b"x"}


def test_source_may_fill_the_same_arrays_again_while_its_rows_wait():
    class Refills(Numbers):
        def read(self, after):
            ts, value = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)
            for columns, position in super().read(after):
                ts[:], value[:] = columns["ts"], columns["value"]
                yield {"ts": ts, "value": value}, position

    source = ConnectedSource(Refills([(n, n) for n in range(6)], size=2), ref="r", stream="s", program="P")
    assert [rows["value"].tolist() for rows, _ in source.pieces(None)] == [[0, 1], [2, 3], [4, 5]]
    kept = [rows for rows, _ in source.pieces(None)]
    assert [rows["value"].tolist() for rows in kept] == [[0, 1], [2, 3], [4, 5]]
