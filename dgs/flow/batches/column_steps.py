"""Steps over columns: ready-made ones, and functions for which the user gives a form for columns.

>>> step = steps.FilterBy("event", (0,))
>>> items = Items(np.arange(3), None, Constant(()), Records.of({"event": np.array([0, 1, 0])}))
>>> taken(step)(items).index.tolist()
[0, 2]
>>> rows_because(steps.Map(len)), rows_because(step)
('its function has no columns=', '')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dgs.flow import steps
from dgs.flow.batches.column_items import Constant, Items, NoColumns, Numbers, Records, Tuples
from dgs.flow.batches.column_keys import DENSE, SMALL
from dgs.model import columns
from dgs.model.columns import Column
from dgs.model.user_code import shown

PAIR = 2


class WrongColumnsError(Exception):
    """A function of `columns=` returns another form than its step takes: the expected form, and the one found."""


Taken = Callable[[Items], Items]
FEW = 8
"""With more values than this, a set is used."""

_COMPARED = (int, bool, float, str, bytes, type(None))
"""Types whose equality is known."""

_FUNCTIONS = (steps.Map, steps.Filter, steps.FlatMap, steps.Each)


def rows_because(step: steps.Step) -> str:
    """Return why a step without state runs in rows; an empty text if it runs in columns."""
    if isinstance(step, (steps.FilterBy, steps.Lookup, steps.Project, steps.Merge)):
        return ""
    if isinstance(step, steps.KeyBy) and isinstance(step.by, tuple):
        return ""
    if isinstance(step, (*_FUNCTIONS, steps.KeyBy)):
        return "" if step.columns is not None else "its function has no columns="
    return "it has no form for columns"


def taken(step: Any) -> Taken | None:
    """Return a step over columns, which raises NoColumns for data of other types; None if it runs in rows."""
    if rows_because(step):
        return None
    if isinstance(step, (*_FUNCTIONS, steps.KeyBy)) and getattr(step, "columns", None) is not None:
        return partial(_called, step)
    found: dict[type[steps.Step], Callable[[Any, Items], Items]] = {
        steps.FilterBy: _filter_by,
        steps.KeyBy: _key_by,
        steps.Project: lambda step, items: replace(items, value=_records(items).only(step.fields)),
    }
    if isinstance(step, steps.Lookup):
        return _Lookup(step)
    return partial(found[type(step)], step) if type(step) in found else lambda items: items


def _records(items: Items) -> Records:
    if not isinstance(items.value, Records):
        raise NoColumns
    return items.value


def _called(step: Any, items: Items) -> Items:
    """Return the result of the user's function for columns."""
    value = items.value_column()
    given = (
        (items.key_column(), value, items.at) if isinstance(step, steps.Each) else (items.key_column(), value)
    )
    made = step.columns(*given)
    if isinstance(step, steps.Filter):
        _check_length(made, len(items), "a mask")
        return items.chosen(_places(made))
    if isinstance(step, steps.FlatMap):
        column, rows = _spread(made, len(items))
        return items.spread(Records.of(column) if isinstance(column, dict) else column, rows)
    if isinstance(step, steps.KeyBy):
        for one in made if isinstance(made, tuple) else (made,):
            _check_length(one, len(items), "a column of keys")
        return replace(items, key=Tuples(made) if isinstance(made, tuple) else made)
    _check_length(made, len(items), "a column")
    return items.having(made)


def _check_length(made: Any, count: int, what: str) -> None:
    """Check that columns= gives a value for each item. Raises WrongColumnsError."""
    for column in made.values() if isinstance(made, dict) else (made,):
        is_column = isinstance(column, (list, pa.Array, pa.ChunkedArray)) or (
            isinstance(column, np.ndarray) and column.ndim == 1
        )
        if not is_column or len(column) != count:
            found = f"{len(column):,} values" if is_column else shown(column)
            raise WrongColumnsError(f"{what} of {count:,} values, one for each item", found)


def _spread(made: Any, count: int) -> tuple[Any, Numbers]:
    """Return the result of columns= of a flat_map: values, and for each its item. Raises WrongColumnsError."""
    expected = "a pair: a column, and for each value the number of the item it is of, in order"
    if not isinstance(made, (tuple, list)) or len(made) != PAIR:
        raise WrongColumnsError(expected, shown(made))
    rows = np.asarray(made[1], dtype=np.intp)
    if len(rows) and (rows[0] < 0 or rows[-1] >= count or (rows[1:] < rows[:-1]).any()):
        raise WrongColumnsError(f"{expected}, below {count:,}", shown(rows))
    _check_length(made[0], len(rows), "a column")
    return made[0], rows


def _places(mask: Any) -> Numbers:
    if isinstance(mask, (pa.Array, pa.ChunkedArray)):
        mask = mask.to_numpy(zero_copy_only=False) if isinstance(mask, pa.Array) else mask.to_numpy()
    return np.flatnonzero(mask)


def _filter_by(step: steps.FilterBy, items: Items) -> Items:
    return items.chosen(np.flatnonzero(_is_one_of(_records(items).field(step.field), step.values)))


def _is_one_of(column: Column, values: Iterable[Any]) -> Any:
    """Return which values of a column equal one of these, as Python compares them."""
    if any(type(value) not in _COMPARED for value in values):
        raise NoColumns
    if isinstance(column, pa.DictionaryArray):
        found = np.array([text in values for text in column.dictionary.to_pylist()], dtype=bool)
        return found.take(column.indices.to_numpy())
    if isinstance(column, pa.Array):
        texts = [value for value in values if type(value) is str and _fits_arrow(value)]
        found = (
            pc.equal(column, texts[0]) if len(texts) == 1 else pc.is_in(column, pa.array(texts, column.type))
        )
        return found.to_numpy(zero_copy_only=False)
    numbers = _numbers_like(column, values)
    if len(numbers) > FEW:
        return np.isin(column, np.array(numbers))
    found = np.zeros(len(column), dtype=bool) if not numbers else column == numbers[0]
    for value in numbers[1:]:
        found |= column == value
    return found


def _fits_arrow(text: str) -> bool:
    """Return whether an Arrow column can hold a text, which must not have half a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _numbers_like(column: Numbers, values: Iterable[Any]) -> list[Any]:
    """Return those of some values that may occur in a column of numbers, in its type."""
    kind: Any = float if column.dtype.kind == "f" else int
    found = []
    for value in values:
        if isinstance(value, (int, float)):
            try:
                same = kind(value)
            except (OverflowError, ValueError):
                continue
            if same == value and (kind is float or -(2**63) <= same < 2**63):
                found.append(same)
    return found


def _key_by(step: steps.KeyBy, items: Items) -> Items:
    by: Any = step.by
    if len(by) > 1:
        return replace(items, key=Tuples(tuple(_records(items).field(name) for name in by)))
    if isinstance(by[0], str) and not isinstance(items.value, Records):
        return replace(items, key=Constant(by[0]))
    return replace(items, key=_records(items).field(by[0]))


class _Lookup:
    """Looks a field up in a table, which it reads once."""

    def __init__(self, step: steps.Lookup) -> None:
        self._step = step
        keys = list(step.table)
        self._rows = [step.table[key] for key in keys]
        self._values = _coded_values(self._rows)
        self._texts = {key: place for place, key in enumerate(keys) if type(key) is str}
        self._low, self._dense = _dense(keys) if keys and {type(key) for key in keys} == {int} else (0, None)
        dense: Any = self._dense
        is_full = dense is not None and int(dense.min()) >= 0 and isinstance(self._values, np.ndarray)
        self._direct: Numbers | None = self._values.take(dense) if is_full else None

    def __call__(self, items: Items) -> Items:
        """Return the items with the field."""
        records = _records(items)
        column = records.field(self._step.key)
        if self._direct is not None and isinstance(column, np.ndarray) and self._is_inside(column):
            found = self._direct.take(column - self._low if self._low else column)
            return replace(items, value=records.having(self._step.into, found))
        places = self._places(column)
        if len(places) and int(places.min()) < 0:
            if self._step.missing != "drop":
                raise NoColumns  # in rows, the error names the row
            known = np.flatnonzero(places >= 0)
            items, places = items.chosen(known), places.take(known)
            records = _records(items)
        return replace(items, value=records.having(self._step.into, self._taken(places)))

    def _places(self, column: Column) -> Numbers:
        """Return the place of each value in the table, -1 for missing ones."""
        if isinstance(column, pa.Array):
            array = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
            places = [self._texts.get(text, -1) for text in array.dictionary.to_pylist()]
            found: Numbers = np.array(places, dtype=np.int64).take(array.indices.to_numpy())
            return found
        if column.dtype.kind != "i" or self._dense is None:
            raise NoColumns
        if not len(column):
            return np.zeros(0, dtype=np.int64)
        shifted = column - self._low if self._low else column
        if self._is_inside(column):
            inside: Numbers = self._dense.take(shifted)
            return inside
        is_inside = (column >= self._low) & (column < self._low + len(self._dense))
        return np.where(is_inside, self._dense.take(shifted, mode="clip"), -1)

    def _is_inside(self, column: Numbers) -> bool:
        """Return whether all integers of a column are between the least and the greatest key."""
        if column.dtype.kind != "i" or not len(column) or self._dense is None:
            return False
        return int(column.min()) >= self._low and int(column.max()) < self._low + len(self._dense)

    def _taken(self, places: Numbers) -> Column:
        values = self._values
        if isinstance(values, list):
            return [values[place] for place in places.tolist()]
        if isinstance(values, np.ndarray):
            return values.take(places)
        codes, texts = values
        return pa.DictionaryArray.from_arrays(pa.array(codes.take(places)), texts)


def _dense(keys: list[int]) -> tuple[int, Numbers | None]:
    """Return the least key, and the place of each key from there on; None if they are far apart."""
    low, high = min(keys), max(keys)
    if high - low > max(DENSE * len(keys), SMALL) or low < -(2**62) or high > 2**62:
        return 0, None
    found = np.full(high - low + 1, -1, dtype=np.int64)
    found[np.array(keys) - low] = np.arange(len(keys))
    return low, found


def _coded_values(rows: list[Any]) -> Any:
    """Return the values of a table as an array, as codes with texts, or as a list."""
    kinds = set(map(type, rows))
    if kinds == {str}:
        try:
            texts = pa.array(list(dict.fromkeys(rows)), pa.string())
        except UnicodeError:
            return rows
        place = {text: number for number, text in enumerate(dict.fromkeys(rows))}
        return np.array([place[text] for text in rows], dtype=np.int32), texts
    made = columns.as_column(rows) if kinds in ({int}, {float}, {bool}) else rows
    return made if isinstance(made, np.ndarray) else rows
