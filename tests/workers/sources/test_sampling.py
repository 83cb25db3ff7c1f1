"""Rates for the planner: exact on regular streams, harmless on broken ones."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs.errors import MissingInputError, PlanFileError, UnknownColumnError
from dgs.model.events import EventBatch
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag
from dgs.planner.prediction.costs import TYPICAL
from dgs.planner.topology import Machine
from dgs.workers.event_log import LogWriter
from dgs.workers.sources import SourceContext, sampling
from dgs.workers.sources.sampling import FIRST_TOUCH, topology, with_sources
from tests.workers.reading import Kinds, stream

VALUE = Tag("value")


def streams(*configs, memory=None, unit="ms", base_dir=None, **options):
    found = topology(
        list(configs),
        [Machine("m", 2)],
        SourceContext(Kinds(), unit, base_dir, memory or {}),
        **options,
    )
    return found.streams


def one(config, items, **options):
    (found,) = streams(config, memory={"data": items}, **options)
    return found


@given(
    st.integers(2, 50),
    st.integers(1, 1000),
    st.sampled_from([("ns", 1e9), ("ms", 1e3), ("s", 1), ("h", 1 / 3600)]),
)
def test_rate_of_a_regular_stream_is_events_per_second(count, period, unit):
    found = one(stream(), {"ts": [i * period for i in range(count)]}, unit=unit[0])
    assert dict(found.rates) == {VALUE: pytest.approx(unit[1] / period)}


def test_rate_without_a_unit_is_per_unit():
    assert one(stream(), {"ts": [0, 4, 8]}, unit="none").rates == {VALUE: 0.25}


def test_rate_of_calendar_times_without_a_unit_is_per_second():
    items = {"ts": ["2020-01-01T00:00:00", "2020-01-01T00:00:10"]}
    assert one(stream(), items, unit="none").rates == {VALUE: pytest.approx(0.1)}


def test_rates_of_tags_are_their_shares():
    items = [("value", 0, 0), (("side", "l"), 1, 0), ("value", 2, 0), ("value", 4, 0)]
    found = one(stream(tags=["value", "side"]), items, unit="s")
    assert found.rates == {VALUE: 0.5625, Tag("side", "l"): 0.1875}  # 3 intervals in 4 s, 3 to 1
    assert found.other_rate == 0


def test_tags_that_are_not_declared_are_no_ones_rate():
    items = [("value", 0, 0), ("barrier", 1, 0), ("value", 2, 0)]
    assert one(stream(rate="6/s"), items).rates == {VALUE: 6.0}


def test_counts_stand_in_for_rates_where_time_does_not_pass():
    assert one(stream(), {"ts": [5, 5, 5]}).rates == {VALUE: 3.0}
    assert one(stream(), {"ts": [5]}).rates == {VALUE: 1.0}


def test_a_single_event_counts_for_the_time_of_all_streams():
    memory = {"data": {"ts": [70_000]}, "others": {"ts": list(range(0, 100_000, 10))}}
    single, others = streams(stream(), stream("others", id="o"), memory=memory)
    assert single.rates == {VALUE: pytest.approx(1 / 100, rel=0.02)}
    assert others.rates == {VALUE: pytest.approx(100.0)}


def test_events_that_all_come_early_count_for_the_time_of_the_job():
    memory = {"data": {"ts": [5, 5, 7, 8]}, "others": {"ts": list(range(1000))}}
    early, others = streams(stream(), stream("others", id="o"), memory=memory, unit="s")
    assert early.rates == {VALUE: pytest.approx(4 / 1000)}
    assert others.rates == {VALUE: pytest.approx(1.0)}


def test_rate_of_the_plan_file_wins_and_tags_share_it():
    items = [(("side", "l"), 1, 0), (("side", "l"), 2, 0), (("side", "r"), 3, 0)]
    found = one(stream(tags=["side"], rate="60/s"), items)
    assert found.rates == {Tag("side", "l"): 40.0, Tag("side", "r"): 20.0}


def test_splits_share_equally_and_keep_the_tags():
    found = streams(stream(split=4, location="m", rate="8/s"), memory={"data": [("value", 1, 0)]})
    assert [(s.id, dict(s.rates), s.tags, s.location) for s in found] == [
        (f"s/{i}", {VALUE: 2.0}, TagSet.of(VALUE), "m") for i in range(4)
    ]


def test_only_the_first_rows_are_read():
    items = [("value", i, 0) for i in range(100)] + [("value", "broken", 0)]
    assert one(stream(), items, rows=50).rates == {VALUE: pytest.approx(1000.0)}


def test_keys_not_seen_yet_have_the_rate_of_the_keys_seen_once():
    keys = ["a"] * 6 + ["b", "c"] + ["a"] * 100
    config = stream(tags={"kind": "view", "key": {"column": "k"}}, rate="8/s")
    found = one(config, {"ts": list(range(108)), "k": keys}, rows=8)
    assert found.other_rate == 2.0
    assert found.rates == {Tag("view", "a"): 4.5, Tag("view", "b"): 0.75, Tag("view", "c"): 0.75}
    first = one(config, {"ts": list(range(108)), "k": keys}, rows=4)
    assert (first.other_rate, first.rates) == (2.0, {Tag("view", "a"): 6.0})  # as if one of the four were new
    whole = one(config, {"ts": list(range(8)), "k": keys[:8]}, rows=9)
    assert (whole.other_rate, sum(whole.rates.values())) == (0.0, 8.0)


@pytest.mark.parametrize("items", [[("value", None, 0)], [("value", 5, 0), ("value", 1, 0)], [], [17]])
def test_data_that_is_wrong_does_not_stop_the_planning(items):
    found = one(stream(rate="5/s"), items)
    assert found.rates == {VALUE: 5.0}


def test_stream_that_shows_nothing_has_its_rate_for_tags_unknown():
    found = one(stream(tags={"kind": "view", "key": {"column": "k"}}, rate="5/s"), [])
    assert (found.rates, found.other_rate) == ({}, 5.0)


def test_missing_file_stops_the_planning(tmp_path):
    with pytest.raises(MissingInputError):
        streams(stream({"csv": {"path": "none.csv"}}), base_dir=tmp_path)


def test_column_that_is_not_there_stops_the_planning(tmp_path):
    (tmp_path / "data.csv").write_text("ts\n1\n")
    with pytest.raises(UnknownColumnError):
        streams(stream({"csv": {"path": "data.csv"}}, payload="no"), base_dir=tmp_path)


def test_calendar_times_and_bare_numbers_need_a_unit():
    configs = [stream("data"), stream("bare", id="b")]
    memory = {"data": [("value", "2020-01-01", 0)], "bare": [("value", 1, 0)]}
    with pytest.raises(PlanFileError, match="stream 's' has calendar times and stream 'b' bare numbers"):
        streams(*configs, memory=memory, unit="none")
    assert len(streams(*configs, memory=memory, unit="ms")) == 2


def test_machines_are_passed_on():
    found = topology([], [Machine("m", 3)], SourceContext(Kinds()))
    assert found.machines == (Machine("m", 3),)


def test_the_number_of_events_is_known_from_the_rows_of_the_source():
    items = [(VALUE, row, None) for row in range(300)]
    assert one(stream(), items).events == 300
    assert one(stream(), items, rows=10).events == 300
    assert [part.events for part in streams(stream(split=3), memory={"data": items})] == [100] * 3


def test_the_number_of_events_of_a_generator_or_a_log_is_not_known(tmp_path):
    endless = {"generator": {"ref": "itertools:count"}}
    (found,) = streams(stream(source=endless), base_dir=tmp_path)
    assert found.events == math.inf
    LogWriter(tmp_path / "log", "s", "w").append(0, {"ts": [9_000]})
    (found,) = streams(stream(source={"log": {"path": "log"}}), base_dir=tmp_path)
    assert found.events == math.inf


def test_reading_of_long_files_is_timed_and_that_of_short_and_unreadable_ones_is_not(tmp_path):
    for name, rows in (("long", 5000), ("short", 10)):
        (tmp_path / f"{name}.csv").write_text("ts,value\n" + "".join(f"{ts},1\n" for ts in range(rows)))
    (tmp_path / "wrong.csv").write_text("ts,value\n" + "x,1\n" * 5000)
    files = [
        stream({"csv": {"path": f"{name}.csv"}}, id=name, tags={"kind": "value"})
        for name in ("long", "short", "wrong")
    ]
    found = with_sources(TYPICAL, files, SourceContext(Kinds(), "ms", tmp_path))
    assert list(found.sources) == list(found.carried) == ["long"]
    assert 0 < found.source("long") < 1e-3 > found.carrying("long") > 0


def test_rows_from_python_and_of_a_generator_take_time_and_batches_hardly_any(tmp_path):
    (tmp_path / "made.py").write_text(
        "def rows():\n    for ts in range(5000):\n        yield 'value', ts, 1\n"
    )
    batch = EventBatch.of("batch", rank=1, tags=[VALUE], ts=range(50_000), payload=[1] * 50_000)
    memory = {"rows": [("value", ts, 1) for ts in range(5000)], "batch": [batch]}
    configs = [stream({"memory": name}, id=name) for name in memory]
    configs.append(stream({"generator": {"ref": "made.py:rows"}}, id="made"))
    found = with_sources(TYPICAL, configs, SourceContext(Kinds(), "ms", tmp_path, memory)).sources
    assert found.keys() == {"rows", "batch", "made"}
    assert 10 * found["batch"] < found["rows"] < 1e-3 > found["made"] > 10 * found["batch"]
    shared = with_sources(
        TYPICAL, configs[1:2], SourceContext(Kinds(), "ms", tmp_path, memory), is_shared=True
    )
    assert shared.source("batch") >= 16 * FIRST_TOUCH


def test_what_only_the_first_read_of_a_process_takes_is_no_cost_of_an_event(tmp_path):
    (tmp_path / "slow_first.py").write_text(
        "first = [True]\n"
        "def rows():\n"
        "    if first.pop():\n"
        "        sum(range(20_000_000))\n"
        "    first.append(False)\n"
        "    for ts in range(5000):\n"
        "        yield 'value', ts, 1\n"
    )
    config = stream({"generator": {"ref": "slow_first.py:rows"}}, id="made")
    found = with_sources(TYPICAL, [config], SourceContext(Kinds(), "ms", tmp_path))
    assert 0 < found.source("made") < 1e-5


def test_long_texts_are_dearer_to_send_than_numbers(tmp_path):
    size = 5000
    memory = {
        "numbers": [EventBatch.of("numbers", rank=0, tags=[VALUE], ts=range(size), payload=range(size))],
        "texts": [EventBatch.of("texts", rank=1, tags=[VALUE], ts=range(size), payload=["x" * 2000] * size)],
        "objects": [
            EventBatch.of("objects", rank=2, tags=[VALUE], ts=range(size), payload=[object()] * size)
        ],
    }
    configs = [stream({"memory": name}, id=name) for name in memory]
    found = with_sources(TYPICAL, configs, SourceContext(Kinds(), "ms", tmp_path, memory))
    assert found.carrying("texts") > 2 * found.carrying("numbers")
    assert found.carried.keys() == {"numbers", "texts"}  # no codec takes the objects, and the run says so


def test_events_for_another_host_are_copied_to_new_memory(tmp_path, monkeypatch):
    size = 50_000
    batch = EventBatch.of("numbers", rank=0, tags=[VALUE], ts=range(size), payload=range(size))
    context = SourceContext(Kinds(), "ms", tmp_path, {"numbers": [batch]})

    def carrying(copies):
        monkeypatch.setattr(sampling, "COPIES", copies)
        return with_sources(TYPICAL, [stream({"memory": "numbers"}, id="numbers")], context).carrying(
            "numbers"
        )

    assert carrying(200) > 3 * carrying(0)
