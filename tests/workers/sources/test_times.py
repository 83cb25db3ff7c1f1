"""Time columns: every type, every unit, every error."""

import datetime as dt
import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs.errors import MalformedRowError, PlanFileError
from dgs.model.order import MAX_TS
from dgs.workers.sources.shaping.times import Clock
from tests.workers.reading import read_all, stream

NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
}
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
units = st.sampled_from(list(NANOSECONDS))


def times(column, plan_unit="none", column_unit=None):
    return Clock("s", plan_unit=plan_unit, column_unit=column_unit).times(column, first=10).tolist()


@pytest.mark.parametrize("dtype", [">i8", ">f8", "<u2", ">M8[ms]"])
def test_arrays_of_any_order_of_bytes_are_times(dtype):
    assert times(np.array([3, 5], dtype), "ms") == [3, 5]


@given(st.lists(st.integers(-(2**63), 2**63 - 2), min_size=1))
def test_integers_are_as_they_are(values):
    assert times(values) == values
    assert times(np.array(values), "ms") == values
    assert times(pa.array(values), "ms", "ms") == values


@given(st.integers(-(10**6), 10**6), units, units)
def test_integers_of_another_unit_are_scaled_and_rounded_down(value, plan_unit, column_unit):
    exact = value * NANOSECONDS[column_unit] // NANOSECONDS[plan_unit]
    if abs(exact) < MAX_TS:
        assert times([value], plan_unit, column_unit) == [exact]


def since_epoch(when):
    """Return nanoseconds since 1970 UTC, exactly."""
    passed = when - EPOCH
    return ((passed.days * 86400 + passed.seconds) * 10**6 + passed.microseconds) * 1000


moments = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2250, 1, 1))  # noqa: DTZ001
zones = st.sampled_from(
    [None, dt.UTC, dt.timezone(dt.timedelta(hours=5, minutes=30)), dt.timezone(-dt.timedelta(hours=8))]
)


@given(st.lists(st.tuples(moments, zones), min_size=1, max_size=5), units, st.sampled_from("T "))
def test_iso_text_and_datetimes_are_time_since_the_epoch_in_utc(found, unit, between):
    whens = [moment.replace(tzinfo=zone) for moment, zone in found]
    exact = [
        since_epoch(when if when.tzinfo else when.replace(tzinfo=dt.UTC)) // NANOSECONDS[unit]
        for when in whens
    ]
    assert times([when.isoformat(sep=between) for when in whens], unit) == exact
    assert times(whens, unit) == exact


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2013-01-01", "2013-01-01T00:00:00+00:00"),
        ("2013-01-01T05", "2013-01-01T05:00:00+00:00"),
        ("2013-01-01 05:06", "2013-01-01T05:06:00+00:00"),
        ("2013-01-01T05:06Z", "2013-01-01T05:06:00+00:00"),
        ("2013-01-01T05:06:07-0330", "2013-01-01T08:36:07+00:00"),
    ],
)
def test_short_forms_of_iso_text_are_understood(text, expected):
    assert times([text]) == [since_epoch(dt.datetime.fromisoformat(expected))]


def test_nine_digits_of_a_second_are_kept():
    assert times(["1970-01-01T00:00:00.123456789"]) == [123456789]


def test_text_and_datetimes_without_a_plan_unit_are_nanoseconds():
    assert times(["1970-01-01T00:00:01Z"]) == times([EPOCH + dt.timedelta(seconds=1)]) == [10**9]


@pytest.mark.parametrize(
    "kind", [pa.timestamp("s"), pa.timestamp("ms", "Europe/Berlin"), pa.date32(), pa.date64()]
)
def test_arrow_times_are_instants(kind):
    assert times(pa.array([86_400 * 365], pa.int64()).cast(pa.timestamp("s")).cast(kind), "h") == [24 * 365]


def test_floats_are_rounded_down_where_the_unit_is_given():
    assert times([1.9999, -0.5], "ms", "s") == [1999, -500]
    assert times([2.0, 3.0]) == [2, 3]


@pytest.mark.parametrize(
    ("column", "row", "said"),
    [
        ([1, None], 11, "the timestamp is missing or null"),
        (["2013-01-01", "x"], 11, "'x' is not an ISO-8601 time"),
        (["17"], 10, "'17' is text, not a number"),
        (
            [1, "2013-01-01"],
            11,
            "timestamp '2013-01-01' is a calendar time, but earlier ones are each a bare number",
        ),
        (["2013-01-01", 5], 11, "timestamp 5 is a bare number, but earlier ones are each a calendar time"),
        ([1.0, 2.5], 11, "timestamp 2.5 is not an integer"),
        ([1.0, float("nan")], 11, "timestamp nan"),
        ([False], 10, "true and false are not timestamps"),
        (np.array([True]), 10, "True of type bool is not a timestamp"),
        ([1, MAX_TS], 11, f"timestamp {MAX_TS} is reserved for the end of a stream"),
        ([dt.time(5)], 10, "datetime.time(5, 0) of type time64[us] is not a timestamp"),
        ([(1, 2)], 10, "[1, 2] of type list<"),
        ([object()], 10, "<object object at"),
        (pa.array([1, 2**63], pa.uint64()), 11, ""),
    ],
)
def test_wrong_time_names_its_row(column, row, said):
    with pytest.raises(MalformedRowError) as caught:
        times(column)
    assert caught.value.row == row
    assert caught.value.problem.startswith(said)


@pytest.mark.parametrize("unit", ["s", "m", "d"])
def test_time_that_does_not_fit_after_scaling_is_refused(unit):
    for values in ([0, 2**62], [0.0, 1e30]):
        with pytest.raises(MalformedRowError, match=r"row 11: timestamp .* does not fit into 64 bits"):
            times(values, "ns", unit)


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations([[5], ["2013-01-01"]])))
def test_bare_and_calendar_times_do_not_mix_across_batches(first, second):
    clock = Clock("s", plan_unit="ms")
    clock.times(first, first=0)
    with pytest.raises(MalformedRowError, match=r"row 1: .* cannot be ordered together"):
        clock.times(second, first=1)


def test_unit_of_a_column_needs_the_unit_of_the_plan():
    with pytest.raises(PlanFileError, match=r"stream 's': `ts: \{unit: s\}` needs the plan's own unit"):
        Clock("s", plan_unit="none", column_unit="s")


@pytest.mark.parametrize("on_disorder", ["error", "drop"])
@pytest.mark.parametrize("ts", [[1, MAX_TS], [MAX_TS, 1], [1, MAX_TS, 2]])
def test_reserved_time_is_refused_wherever_it_stands_in_a_plain_column(ts, on_disorder):
    config = stream(tags={"kind": "value"}, on_disorder=on_disorder, payload=[])
    with pytest.raises(MalformedRowError, match="reserved"):
        read_all(config, [{"ts": np.array(ts, dtype=np.int64)}])
