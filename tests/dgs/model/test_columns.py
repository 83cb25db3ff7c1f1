"""Columns: every kind of column behaves like the list of its rows."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgs.model import columns

ROWS = st.lists(st.integers(-9, 9), max_size=8)
MAKE = {
    "list": list,
    "numpy": lambda rows: np.array(rows, dtype=np.int64),
    "arrow": lambda rows: pa.array(rows, pa.int64()),
    "chunked": lambda rows: pa.chunked_array([rows[:2], rows[2:]], pa.int64()),
}
MAKE["dictionary"] = lambda rows: pa.array(rows, pa.int64()).dictionary_encode()
LISTS = {
    **{name: lambda rows: rows for name in MAKE},
    "named": lambda rows: [{"a": row, "b": row} for row in rows],
}
MAKE["named"] = lambda rows: {"a": MAKE["numpy"](rows), "b": MAKE["list"](rows)}
each_kind = pytest.mark.parametrize("name", MAKE)


@each_kind
@given(rows=ROWS)
def test_to_list_and_length_are_those_of_the_rows(name, rows):
    column = MAKE[name](rows)
    assert columns.to_list(column) == LISTS[name](rows)
    assert columns.length(column) == len(rows)


@each_kind
@given(rows=ROWS, data=st.data())
def test_cut_is_a_slice(name, rows, data):
    start = data.draw(st.integers(0, len(rows)))
    stop = data.draw(st.integers(start, len(rows)))
    assert columns.to_list(columns.cut(MAKE[name](rows), start, stop)) == LISTS[name](rows[start:stop])


@each_kind
@given(rows=ROWS, data=st.data())
def test_take_gives_the_rows_in_the_order_asked(name, rows, data):
    wanted = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=9) if rows else st.just([]))
    taken = columns.take(MAKE[name](rows), np.array(wanted, dtype=np.intp))
    assert columns.to_list(taken) == LISTS[name]([rows[i] for i in wanted])


@each_kind
@given(parts=st.lists(ROWS, min_size=1, max_size=4))
def test_concat_puts_one_after_the_other(name, parts):
    whole = columns.concat([MAKE[name](rows) for rows in parts])
    assert columns.to_list(whole) == LISTS[name]([row for rows in parts for row in rows])


@pytest.mark.parametrize("other", ["list", "numpy", "arrow", "chunked"])
@each_kind
def test_concat_of_mixed_columns_keeps_all_rows(name, other):
    whole = columns.concat([MAKE[name]([1, 2, 3]), MAKE[other]([4, 5])])
    assert columns.to_list(whole) == [*LISTS[name]([1, 2, 3]), *LISTS[other]([4, 5])]


def test_concat_never_changes_a_value_to_fit_a_type():
    whole = columns.concat([np.array([1, 2]), np.array([0.5])])
    assert [(type(row), row) for row in columns.to_list(whole)] == [(int, 1), (int, 2), (float, 0.5)]
    whole = columns.concat([{"a": [1]}, {"b": [2]}])
    assert columns.to_list(whole) == [{"a": 1}, {"b": 2}]


def test_cut_of_an_array_is_a_view():
    array = np.arange(10)
    assert np.shares_memory(columns.cut(array, 2, 5), array)


@each_kind
def test_nbytes_grows_with_the_rows(name):
    assert columns.nbytes(MAKE[name](list(range(1000)))) >= 8000


@pytest.mark.parametrize(
    "array",
    [
        pa.array([0.5] * 1000),
        pa.chunked_array([[1, 2], [3]]),
        pa.array([True] * 80),
        pa.array(["ab"] * 100),
        pa.array([1, 2] * 100, pa.timestamp("s")),
        pa.nulls(5),
        pa.DictionaryArray.from_arrays(pa.array([0, 1] * 500, pa.int32()), pa.array(["a", "b"])),
        pa.array(range(1000)).slice(3, 200),
    ],
    ids=lambda array: str(array.type),
)
def test_nbytes_of_arrow_is_about_what_arrow_says(array):
    assert columns.nbytes(array) == pytest.approx(array.nbytes, rel=0.02)


TIMES = st.datetimes() | st.none()
ZONED = TIMES.filter(lambda time: time is None or 1 < time.year < 9999)


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        *((pa.timestamp(unit), TIMES) for unit in ("s", "ms", "us", "ns")),
        *((pa.timestamp("us", zone), ZONED) for zone in ("UTC", "Europe/Paris", "+05:30")),
        (pa.date32(), st.dates() | st.none()),
        (pa.date64(), st.dates() | st.none()),
        (pa.string(), st.sampled_from(["a", "b", "", None])),
        (pa.list_(pa.int64()), st.lists(st.integers(0, 3), max_size=2) | st.none()),
    ],
    ids=str,
)
@given(data=st.data())
def test_to_list_of_an_arrow_array_has_the_objects_of_arrow(kind, rows, data):
    values = data.draw(st.lists(rows, max_size=6))
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        values = [
            value if value is None else value.replace(year=2000)
            for value in values
            if value is None or (value.month, value.day) != (2, 29)
        ]
    array = pa.array(values, pa.timestamp("us") if pa.types.is_timestamp(kind) else kind).cast(
        kind, safe=False
    )
    for one in (array, array[1:], pa.chunked_array([array, array[:2]])):
        assert [(type(row), row) for row in columns.to_list(one)] == [
            (type(row), row) for row in one.to_pylist()
        ]


@pytest.mark.parametrize("coded", [["b", None, "a", "b"], [None], []], ids=str)
def test_to_list_of_a_dictionary_has_its_values_and_nulls(coded):
    array = pa.array(coded, pa.string()).dictionary_encode()
    for one in (
        array,
        array[1:],
        pa.chunked_array([array, array]),
        pa.array(coded, pa.string()).dictionary_encode("encode"),
    ):
        assert columns.to_list(one) == one.to_pylist()


def test_to_list_refuses_times_that_python_lacks_as_arrow_does():
    late = pa.array([400_000_000_000], pa.timestamp("s"))
    with pytest.raises((OverflowError, ValueError)):
        columns.to_list(late)
