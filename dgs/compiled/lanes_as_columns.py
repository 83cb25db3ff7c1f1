"""Lanes as columns for compiled loops: the types of their payloads, and arrays of 64-bit numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dgs.compiled.lowering.compared_texts import Test
from dgs.compiled.lowering.expressions import Payload
from dgs.compiled.lowering.loop_text import THERE, LaneClass, LoopText
from dgs.compiled.lowering.value_types import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    NUMBERS,
    OBJECT,
    TEXTS,
    DoesNotFit,
    Refused,
    Type,
    optional,
)
from dgs.model import columns
from dgs.model.events import EventBatch, declared_stream
from dgs.model.tags import Tag

Array = npt.NDArray[Any]
INT64, INT32, FLOAT64, BOOLS = map(np.dtype, (np.int64, np.int32, np.float64, np.bool_))
_DTYPES = {INT: INT64, FLOAT: FLOAT64, BOOL: BOOLS}
_OF_PYTHON = {int: INT, float: FLOAT, bool: BOOL, str: TEXTS, type(None): NONE}
_KINDS = {"i": INT, "u": INT, "f": FLOAT, "b": BOOL}
OF_KEYS = frozenset([int, float, bool, str, bytes])
WIDEST = 8
"""The bytes of the widest numbers."""
MOST_TAGS_KNOWN = 64
_TAGS: dict[int, TagFacts] = {}
"""The cached facts about the tags of the last batches."""


def lane_class(batch: EventBatch, *, reads_stream: bool) -> LaneClass:
    """Return the class of a batch's lane. Raises Refused if some of its tags have a key and others none."""
    tags = tag_facts(batch)
    if len(tags.have_keys) > 1:
        raise Refused("some events of a stream have a key and others none")
    payload = payload_type(batch.payload)
    fields = tuple(payload.items()) if isinstance(payload, dict) else None
    stream = declared_stream(batch.stream) if reads_stream else None
    return LaneClass(
        tags.kinds,
        None if isinstance(payload, dict) else payload,
        fields,
        len(batch.tags) > 1,
        tags.have_keys == {True},
        stream,
    )


class TagFacts(NamedTuple):
    """The facts about the tags of a batch: their kinds, the number of each tag's kind, and whether they have keys."""

    tags: tuple[Tag, ...]
    kinds: tuple[str, ...]
    numbers: Array
    have_keys: set[bool]


def tag_facts(batch: EventBatch) -> TagFacts:
    """Return the facts about the tags of a batch. The parts of a batch share its tags, which may be many, so they are examined once."""
    found = _TAGS.get(id(batch.tags))
    if found is None or found.tags is not batch.tags:
        kinds: dict[str, int] = {}
        numbers = np.array([kinds.setdefault(str(tag.kind), len(kinds)) for tag in batch.tags])
        found = TagFacts(batch.tags, tuple(kinds), numbers, {tag.key is not None for tag in batch.tags})
        if len(_TAGS) >= MOST_TAGS_KNOWN:
            _TAGS.pop(next(iter(_TAGS)), None)
        _TAGS[id(batch.tags)] = found
    return found


def payload_type(column: Any) -> Payload:
    """Return the type of a column of payloads."""
    if column is None:
        return None
    if isinstance(column, dict):
        return {name: _type_of_column(part) for name, part in column.items()}
    return _type_of_column(column)


def shape_of(column: Any) -> Any:
    """Return a value that differs for columns of payloads of different types, and is cheap for arrays."""
    if type(column) is np.ndarray:
        return column.dtype, column.ndim
    if type(column) is dict:
        return {name: shape_of(part) for name, part in column.items()}
    return payload_type(column)


def _type_of_column(column: Any) -> Type:
    """Return the type of a column of numbers, texts or None; OBJECT for any other, whose values are only passed on."""
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return _type_of_arrow(column)
    if type(column) is list:
        types = set(map(type, column))
        return _common([_OF_PYTHON.get(of, OBJECT) for of in types]) if types else OBJECT
    if type(column) is not np.ndarray or column.ndim != 1 or column.dtype.itemsize > WIDEST:
        return OBJECT
    is_narrow = column.dtype.itemsize < WIDEST or column.dtype.kind != "u"
    return _KINDS.get(column.dtype.kind, OBJECT) if is_narrow else OBJECT


def _type_of_arrow(column: Any) -> Type:
    of = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_string(of) or pa.types.is_large_string(of):
        return TEXTS
    if of != column.type:
        return OBJECT
    number = OBJECT
    if pa.types.is_boolean(of):
        number = BOOL
    elif pa.types.is_integer(of) and of != pa.uint64():
        number = INT
    elif of in (pa.float32(), pa.float64()):
        number = FLOAT
    elif pa.types.is_null(of):
        return NONE
    return _common([number, NONE]) if column.null_count else number


def joined_class(classes: Sequence[LaneClass]) -> LaneClass:
    """Return the common class of batches of one lane: columns with different types are only passed on. Raises Refused for other differences."""
    first, *others = dict.fromkeys(classes)
    if not others:
        return first
    names = {None if one.fields is None else tuple(name for name, _ in one.fields) for one in classes}
    if len(names) > 1 or len({one.has_keys for one in classes}) > 1:
        raise Refused("the batches of a stream differ in their columns")
    kinds = tuple(dict.fromkeys(kind for one in classes for kind in one.kinds))
    fields = None
    if first.fields is not None:
        columns = zip(*(one.fields or () for one in classes), strict=True)
        fields = tuple((column[0][0], _common([of for _, of in column])) for column in columns)
    payload = _common([one.payload for one in classes])
    return LaneClass(kinds, payload, fields, True, first.has_keys, first.stream)


def _common(types: Sequence[Type | None]) -> Any:
    """Return the type of a column whose values, or parts, have some types."""
    if len(set(types)) == 1:
        return types[0]
    some = {of.parts[0] if of is not None and of.is_optional else of for of in types} - {NONE}
    (of,) = some if len(some) == 1 else [OBJECT]
    return optional(of) if of in NUMBERS else of if of == TEXTS else OBJECT


def with_nulls(one: LaneClass, other: LaneClass) -> LaneClass:
    """Return a class of lanes that also allows the nulls of another class, if both have the same kind and columns."""

    def widened(of: Any, to: Any) -> Any:
        return of if (common := _common([of, to])) == OBJECT else common

    names, others = ([name for name, _ in of.fields or ()] for of in (one, other))
    if names != others or set(one.kinds).isdisjoint(other.kinds):
        return one
    if one.fields is None or other.fields is None:
        return replace(one, payload=widened(one.payload, other.payload))
    pairs = zip(one.fields, other.fields, strict=True)
    return replace(one, fields=tuple((name, widened(of, to)) for (name, of), (_, to) in pairs))


def columns_of(batch: EventBatch, lane: LaneClass, text: LoopText) -> list[Array]:
    """Return the columns that the loop of a lane class reads. Raises Refused for ints that do not fit into 64 bits."""
    found: list[Array] = [as_array(batch.ts, INT64)]
    if len(lane.kinds) > 1 or (text.state.name == "dict" and lane.has_codes):
        codes = np.zeros(len(batch), INT32) if batch.codes is None else batch.codes
        found.append(as_array(codes, INT32))
    if len(lane.kinds) > 1:
        tags = tag_facts(batch)
        of_lane = np.array([lane.kinds.index(kind) for kind in tags.kinds])
        found.append(as_array(of_lane[tags.numbers], INT64))
    names = {} if lane.fields is None else {f"field{n}": name for n, (name, _) in enumerate(lane.fields)}
    for column in text.reads:
        name = column.removesuffix(THERE)
        values = batch.payload[names[name]] if names else batch.payload
        found.append(_numbers(values, lane.numbers[column]) if name == column else _are_there(values))
    return found + [as_array(_tested(batch, test), np.bool_) for test in text.tests]


def _tested(batch: EventBatch, test: Test) -> Array:
    """Return for each event whether its input is equal to a constant. Raises Refused for keys with an equality of their own."""
    where, *name = test.origin
    if where == "key":
        if not OF_KEYS.issuperset(type(tag.key) for tag in batch.tags):
            raise Refused("keys of their own types are not compared by compiled code")
        of_tags = np.array([tag.key == test.wanted for tag in batch.tags])
        return of_tags[np.zeros(len(batch), np.intp) if batch.codes is None else batch.codes]
    column = batch.payload[name[0]] if name else batch.payload
    if not isinstance(column, (pa.Array, pa.ChunkedArray)):
        return np.fromiter((one == test.wanted for one in columns.to_list(column)), np.bool_, len(batch))
    values = column.cast(pa.large_string())
    if test.wanted is None:
        return np.asarray(values.is_null())
    if not isinstance(test.wanted, str):
        return np.zeros(len(batch), np.bool_)
    import pyarrow.compute as pc  # slow to import

    return np.asarray(pc.equal(values, str(test.wanted)).fill_null(False))


def _are_there(column: Any) -> Array:
    """Return for each value of a column whether it is not null."""
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return _numbers(column.is_valid(), BOOL)
    if isinstance(column, list):
        return as_array([one is not None for one in column], np.bool_)
    return as_array(np.broadcast_to(True, len(column)), np.bool_)


def _numbers(column: Any, of: Type) -> Array:
    """Return a column as numbers, with some number in place of null."""
    if isinstance(column, list) and None in column:
        column = [0 if one is None else one for one in column]
    if isinstance(column, (pa.Array, pa.ChunkedArray)) and column.null_count:
        column = column.cast(pa.int64()) if pa.types.is_null(column.type) else column
        column = column.fill_null(pa.scalar(False).cast(column.type))
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        column = (
            column.to_numpy()
            if isinstance(column, pa.ChunkedArray)
            else column.to_numpy(zero_copy_only=False)
        )
    return as_array(column, _DTYPES[of])


def as_array(column: Any, dtype: Any) -> Array:
    """Return a column as an array that compiled code reads."""
    if type(column) is np.ndarray and column.dtype is dtype and column.flags.c_contiguous:
        return column
    try:
        return np.ascontiguousarray(column, dtype)
    except OverflowError:
        raise DoesNotFit("an int of the payloads does not fit into 64 bits") from None
