"""Building blocks of an `update_batch`: runs of one kind, columns of constants by tag, and a fold by `update`.

>>> from dgs.model.tags import Tag
>>> batch = EventBatch.of("s", rank=0, tags=[Tag("view", "a"), Tag("view", "b")], codes=[0, 1, 0], ts=[1, 2, 3])
>>> by_tag(batch, [{"page": tag.key, "info": number} for number, tag in enumerate(batch.tags)])
{'page': array(['a', 'b', 'a'], dtype='<U1'), 'info': array([0, 1, 0])}
>>> [(kind, len(run)) for kind, run, _ in by_kind(batch, print)]
[('view', 3)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from dgs.model import columns
from dgs.model.columns import Column, Indices
from dgs.model.events import Codes, Event, EventBatch
from dgs.model.outputs import ColumnEmit
from dgs.model.program import Emit, EmitBatch

__all__ = ["Emit", "EmitBatch", "by_kind", "by_tag", "one_by_one", "spread"]

State = TypeVar("State")

_NUMPY_TYPES: dict[type, type[np.generic]] = {int: np.int64, float: np.float64, bool: np.bool_, str: np.str_}
_ARROW_TYPES = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}


def by_kind(batch: EventBatch, emit_batch: EmitBatch) -> Iterator[tuple[str, EventBatch, EmitBatch]]:
    """Yield the longest runs of events of one kind, in order: the kind, the run, and an `emit_batch` for its own rows.

    A batch of one kind, which is the usual case, is one run.
    """
    if not len(batch):
        return
    kinds = [tag.kind for tag in batch.tags]
    if batch.codes is None or kinds.count(kinds[0]) == len(kinds):
        yield kinds[0], batch, emit_batch
        return
    names = list(dict.fromkeys(kinds))
    kind_of = np.array([names.index(kind) for kind in kinds])[batch.codes]
    starts = [0, *(np.flatnonzero(kind_of[1:] != kind_of[:-1]) + 1).tolist(), len(batch)]
    for start, stop in pairwise(starts):
        whole = stop - start == len(batch)
        run, emit = (
            (batch, emit_batch) if whole else (batch.cut(start, stop), _shifted(emit_batch, start, stop))
        )
        yield names[int(kind_of[start])], run, emit


def _shifted(emit_batch: EmitBatch, start: int, stop: int) -> EmitBatch:
    """Return an `emit_batch` for the rows from `start` to `stop` of the whole batch, numbered from 0."""

    def emit(values: Column, rows: Indices | None = None) -> None:
        emit_batch(values, np.arange(start, stop) if rows is None else rows + start)

    return emit


def one_by_one(
    update: Callable[[State, Event, Emit], State], state: State, batch: EventBatch, emit_batch: EmitBatch
) -> State:
    """Fold the scalar `update` over a batch, for kinds that are too rare to vectorise."""
    emit = ColumnEmit()  # for any `update`, with or without `emits_columns`
    rows: list[int] = []
    for row, event in enumerate(batch.events()):
        state = update(state, event, emit)
        rows += [row] * (len(emit) - len(rows))
    if rows:
        emit_batch(emit.joined(), np.array(rows, dtype=np.intp))
    return state


def by_tag(batch: EventBatch, values: Sequence[Any], *, as_codes: bool = False) -> Column:
    """Return a column with the value of each event's tag; `values[i]` belongs to `batch.tags[i]`.

    Records with the same names become columns by name. A value that all events share takes no memory. With `as_codes` the
    column is an Arrow dictionary, the values and a code per event, and takes no further memory: use it to emit, not to compute.
    """
    codes = batch.codes
    if codes is None or len(values) == 1:
        return spread(list(values[:1]), None, len(batch))
    if as_codes:
        if len(codes) and int(codes.view(np.uint32).max()) >= len(values):
            raise IndexError(f"codes of {len(values)} tags are from {codes.min()} to {codes.max()}")
        return spread(list(values), columns.as_arrow(codes), len(batch))
    if (codes == codes[:1]).all():
        return spread([values[int(codes[0])]] if len(codes) else list(values[:1]), None, len(batch))
    return spread(list(values), codes, len(batch))


def spread(values: list[Any], codes: Codes | Indices | pa.Array | None, count: int) -> Column:
    """Return a column with value `codes[i]` in row i; without codes, with the one value `count` times."""
    types = set(map(type, values))
    if names := _shared_names(values) if types == {dict} else None:
        indices = codes.astype(np.intp, copy=False) if isinstance(codes, np.ndarray) else codes
        return {name: spread([value[name] for value in values], indices, count) for name in names}
    array = _as_array(values, types)
    if codes is None:
        return _repeated(values, array, count)
    if isinstance(codes, pa.Array):
        coded = None if array is None else _as_dictionary(values, array, codes)
        if coded is not None:
            return coded
        codes = codes.to_numpy()
    if isinstance(array, np.ndarray):
        return array.take(codes)
    return [values[code] for code in codes.tolist()] if array is None else array.take(pa.array(codes))


def _shared_names(values: list[Any]) -> list[str]:
    """Return the names of records that all have the same names in one order; none if they differ."""
    names = list(values[0])
    are_shared = all(list(value) == names for value in values) and all(type(name) is str for name in names)
    return names if are_shared else []


def _repeated(values: list[Any], array: Any, count: int) -> Column:
    """Return the one value `count` times. `array`: the value as an array, None if no array can hold it."""
    if isinstance(array, np.ndarray):
        return columns.constant(array, count)
    return values * count if array is None else pa.nulls(count)


def _as_dictionary(values: list[Any], array: Any, codes: pa.Array) -> Any:
    """Return an Arrow dictionary; the codes must be in range. None for texts that Arrow cannot hold."""
    # Arrow reads NumPy's texts only up to a NUL
    if isinstance(array, np.ndarray) and array.dtype.kind == "U":
        try:
            array = pa.array(values, pa.string())
        except UnicodeError:
            return None
    return pa.DictionaryArray.from_arrays(codes, columns.as_arrow(array), safe=False)


def _as_array(values: list[Any], types: set[type]) -> Any:
    """Return values of one type, or that and None, as an array that holds them exactly; None if that is impossible."""
    known = types - {type(None)}
    if len(known) > 1 or not known <= _NUMPY_TYPES.keys():
        return None
    try:
        if type(None) in types:
            return pa.array(values, _ARROW_TYPES[next(iter(known))] if known else pa.null())
        array = np.array(values, dtype=_NUMPY_TYPES[next(iter(known))])
    except (OverflowError, UnicodeError, pa.ArrowException):
        return None
    # NumPy drops NUL characters at the end of texts
    return None if known == {str} and array.tolist() != values else array
