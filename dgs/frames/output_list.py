"""The outputs of a run: a list of values that knows the events they belong to, and becomes a table of any library.

>>> from dgs.model.tags import Tag
>>> outputs = Outputs([OutputBatch.of("s", rank=0, tags=[Tag("sum")], ts=[5], seq=[0], index=[0], values=[15])])
>>> outputs, outputs.to_arrow().to_pylist()
([15], [{'ts': 5, 'stream': 's', 'kind': 'sum', 'key': None, 'value': 15}])

In notebooks it is a table in static HTML, without scripts. All text is escaped.

>>> table_html(["key", "value"], [("<b>", 5)], 1).count("&lt;b&gt;")
1
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cached_property
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from dgs.errors import MissingPackageError, UsageError
from dgs.model import columns
from dgs.model.outputs import OutputBatch
from dgs.model.user_code import LONGEST_REPR, shown

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


def paragraph(name: str, said: str) -> str:
    """Return a sentence about something with a name."""
    return f"<p><strong>{_text(name)}</strong>: {_text(said)}</p>"


def link(path: Path, said: str) -> str:
    """Return a link to a file, relative to the directory of the notebook."""
    return f'<p><a href="{escape(quote(os.path.relpath(path)))}">{_text(said)}</a></p>'


def table_html(names: Sequence[str], rows: Sequence[Sequence[Any]], count: int) -> str:
    """Return rows as a table. `count`: the number of all rows, of which these are the first."""
    head = "".join(f'<th scope="col">{_text(name)}</th>' for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    left = f"<p>{count - len(rows):,} more rows</p>" if count > len(rows) else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{left}"


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else shown(value)
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return escape(text if len(text) <= LONGEST_REPR else f"{text[: LONGEST_REPR - 3]}...")


_NO_TYPE = (pa.ArrowException, OverflowError)
"""What Arrow raises for values without a common type, also for integers beyond 64 bits."""

Value = TypeVar("Value")

SHOWN = 10
"""Rows that a notebook shows."""


class Outputs(list[Value]):
    """The values that `update` emitted, in the total order of their events."""

    def __init__(self, batches: Sequence[OutputBatch] = ()) -> None:
        self._batches = batches
        self._order = _order(batches).tolist()
        values = [value for batch in batches for value in batch.to_list()]
        super().__init__(values[i] for i in self._order)

    @cached_property
    def ts(self) -> list[int]:
        """The times of the events that gave the values, one for each."""
        found = [t for batch in self._batches for t in batch.ts.tolist()]
        return [found[i] for i in self._order]

    def to_arrow(self) -> Any:
        """Return the outputs as an Arrow table: ts, stream, kind, key, and the value.

        If all values are records (dictionaries, named tuples, dataclasses), their fields are columns; if they are tuples of several types,
        their elements are, as `value_0`, `value_1`, ....

        Raises UsageError if the values have no common Arrow type.
        """
        return self._table(len(self._order))

    def to_pandas(self) -> pd.DataFrame:
        """Return the outputs as a pandas data frame, with the columns of `to_arrow`."""
        if find_spec("pandas") is None:
            raise MissingPackageError(feature="to_pandas()", package="pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """Return the outputs as a Polars data frame, with the columns of `to_arrow`."""
        if find_spec("polars") is None:
            raise MissingPackageError(feature="to_polars()", package="polars")
        import polars as pl

        return pl.DataFrame(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Pass the outputs to any library that reads Arrow."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the first rows."""
        try:
            table = self._table(SHOWN)
            names, rows = table.column_names, [tuple(row.values()) for row in table.to_pylist()]
        except UsageError:  # values of several types do not make a table
            names, rows = ["value"], [(value,) for value in self[:SHOWN]]
        return table_html(names, rows, len(self))

    def _table(self, count: int) -> Any:
        """Return the first `count` outputs as a table."""
        order, values = self._order[:count], self[:count]
        tags = [tag for batch in self._batches for tag in batch.tag_list()]
        streams = [batch.stream for batch in self._batches for _ in range(len(batch))]
        table = {
            "ts": pa.array(self.ts[:count], pa.int64()),
            "stream": pa.array([streams[i] for i in order], pa.string()),
            "kind": pa.array([tags[i].kind for i in order], pa.string()),
            "key": _arrow_keys([tags[i].key for i in order]),
        }
        return pa.table({**table, **_arrow_values(values, set(table))})


def _order(batches: Sequence[OutputBatch]) -> columns.Indices:
    """Return the places of the outputs in the total order of their events."""
    parts = [(one.rank, one.index, one.seq, one.ts) for one in batches]
    if not parts:
        return np.empty(0, dtype=np.intp)
    rank = np.concatenate([np.full(len(ts), rank) for rank, _, _, ts in parts])
    index, seq, ts = (np.concatenate([part[i] for part in parts]) for i in (1, 2, 3))
    return np.lexsort((index, seq, rank, ts))


def _arrow_keys(keys: list[Any]) -> Any:
    """Return the keys unchanged if they have a common type, else as text."""
    try:
        return pa.array(keys)
    except _NO_TYPE:
        return pa.array([None if key is None else repr(key) for key in keys], pa.string())


def _arrow_values(values: list[Any], taken: set[str]) -> dict[str, Any]:
    """Return the columns of values: the fields of records, the elements of tuples of several types, else one column `value`."""
    records = [found for value in values if (found := _fields(value)) is not None]
    names = list(dict.fromkeys(name for record in records for name in record))
    are_records = values and len(records) == len(values) and all(type(name) is str for name in names)
    try:
        if are_records and not taken & set(names):
            return {name: pa.array([record.get(name) for record in records]) for name in names}
        return _arrow_column(values)
    except _NO_TYPE as error:
        message = f"the outputs have no common Arrow type ({error}): use run.outputs"
        raise UsageError(message=message) from None


def _arrow_column(values: list[Any]) -> dict[str, Any]:
    try:
        return {"value": pa.array(values)}
    except _NO_TYPE:
        lengths = {len(value) if isinstance(value, (list, tuple)) else -1 for value in values}
        if len(lengths) != 1 or min(lengths) < 1:
            raise
    return {f"value_{place}": pa.array(column) for place, column in enumerate(zip(*values, strict=True))}


def _fields(value: Any) -> Mapping[Any, Any] | None:
    """Return the fields of a record: a dictionary, a named tuple or a dataclass; None for any other value."""
    if isinstance(value, dict):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    named: Mapping[Any, Any] | None = value._asdict() if hasattr(value, "_asdict") else None
    return named
