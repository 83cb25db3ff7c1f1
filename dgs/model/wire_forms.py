"""Codec forms of the model's types: tags and their sets, order keys, batches of events and of outputs.

Decoded batches are checked here (equal lengths, codes within the tags), because no code after the codec checks them. Row
numbers without gaps and all-zero output indices, the common cases, take almost no bytes.

>>> from dgs import codec
>>> codec.decode(codec.encode(OrderKey(5, 0, 7)))
OrderKey(ts=5, rank=0, seq=7, path=())
"""

from __future__ import annotations

from itertools import compress
from typing import Any, TypeVar

import numpy as np

from dgs import codec
from dgs.codec.arrays import viewed
from dgs.codec.forms import Form
from dgs.errors import CodecError
from dgs.model import columns
from dgs.model.columns import RowNumbers
from dgs.model.events import Event, EventBatch, Int64s
from dgs.model.impl_tags import ImplTagSet
from dgs.model.key_sets import KeySet
from dgs.model.order import Heartbeat, OrderKey
from dgs.model.outputs import OutputBatch
from dgs.model.tag_sets import TagSet
from dgs.model.tags import ImplTag, Kind, Tag

Word = TypeVar("Word")

FEW_TAGS = 8
"""Batches of so few tags are encoded with all of them, without looking for those that no row has."""


def _numbers(values: Int64s) -> bytes:
    return values.astype("<i8", copy=False).tobytes()


def _from_numbers(data: bytes) -> Int64s:
    return np.frombuffer(data, "<i8") if data else np.empty(0, np.int64)


def _counted(values: Int64s | RowNumbers) -> int | bytes:
    """Return the first number if the numbers are consecutive, else all as bytes."""
    if isinstance(values, RowNumbers):
        return values.first if values.count else b""
    may_be = len(values) and int(values[-1]) - int(values[0]) == len(values) - 1
    return int(values[0]) if may_be and (np.diff(values) == 1).all() else _numbers(values)


def _from_counted(content: int | bytes, rows: int) -> Int64s | RowNumbers:
    return RowNumbers(content, rows) if isinstance(content, int) else _from_numbers(content)


def _tags_and_codes(batch: EventBatch | OutputBatch) -> list[Any]:
    """Return the tags that rows of a batch have, and the codes. A part of a batch has few of the tags that it shares with the other parts."""
    tags, codes = batch.tags, batch.codes
    if codes is None:
        return [list(tags), None]
    if len(tags) > FEW_TAGS:
        is_used = np.zeros(len(tags), dtype=bool)
        is_used[codes] = True
        if not is_used.all():
            tags, codes = tuple(compress(tags, is_used.tolist())), (np.cumsum(is_used) - 1)[codes]
    return [list(tags), codes.astype("<i4", copy=False).tobytes()]


def _from_codes(data: bytes | None, rows: int, tags: tuple[Tag, ...]) -> Any:
    if data is None:
        _check(bool(tags) or not rows, "no tags")
        return None
    codes = np.frombuffer(data, "<i4") if data else np.empty(0, np.int32)
    _check(len(codes) == rows and (not rows or 0 <= codes.min() <= codes.max() < len(tags)), "codes")
    return codes


def _check(holds: bool, part: str) -> None:
    if not holds:
        raise CodecError(problem=f"a batch is inconsistent: {part}")


def _tags(content: Any) -> tuple[Tag, ...]:
    _check(all(type(tag) is Tag for tag in content), "tags")
    return tuple(content)


def _to_events(batch: EventBatch) -> Any:
    payload = None if batch.payload is None else viewed(batch.payload)
    numbers = [_numbers(batch.ts), _counted(batch.seq)]
    return [batch.stream, batch.rank, *numbers, *_tags_and_codes(batch), payload]


def _from_events(content: Any) -> EventBatch:
    stream, rank, ts, seq, tags, codes, payload = content
    times, known = _from_numbers(ts), _tags(tags)
    rows = len(times)
    numbers = _from_counted(seq, rows)
    _check(len(numbers) == rows and (payload is None or _rows_of(payload) == {rows}), "lengths")
    return EventBatch(stream, rank, times, numbers, known, _from_codes(codes, rows, known), payload)


def _to_outputs(batch: OutputBatch) -> Any:
    index = _numbers(batch.index) if batch.index.any() else None
    numbers = [_numbers(batch.ts), _counted(batch.seq), index]
    return [batch.stream, batch.rank, *numbers, *_tags_and_codes(batch), viewed(batch.values)]


def _from_outputs(content: Any) -> OutputBatch:
    stream, rank, ts, seq, index, tags, codes, values = content
    times, known = _from_numbers(ts), _tags(tags)
    rows = len(times)
    numbers = _from_counted(seq, rows)
    indices = np.zeros(rows, np.int64) if index is None else _from_numbers(index)
    _check(len(numbers) == len(indices) == rows and _rows_of(values) == {rows}, "lengths")
    which = _from_codes(codes, rows, known)
    return OutputBatch(stream, rank, times, numbers, indices, known, which, values)


def _rows_of(column: columns.Column) -> set[int]:
    """Return the set of lengths of all parts of a column; a valid column has one."""
    if isinstance(column, dict):
        return set().union(*map(_rows_of, column.values())) or {0}
    return {len(column)}


def _to_key(key: OrderKey) -> list[Any]:
    return [*key[:3], *key.path]


def _from_key(content: Any) -> OrderKey:
    if not _all_of(int, content):
        raise CodecError(problem="the parts of an order key are not integers")
    ts, rank, seq, *path = content
    return OrderKey(ts, rank, seq, tuple(path))


def _all_of(one: type, parts: Any) -> bool:
    return all(type(part) is one for part in parts)


def _known(value: Word, holds: bool) -> Word:
    """Return a value whose parts have the right types, because other code trusts them. Raises CodecError if not `holds`."""
    if not holds:
        raise CodecError(problem=f"the parts of {type(value).__name__} have the wrong types")
    return value


def _from_tag(content: Any) -> Tag:
    tag = Tag(*content)
    return _known(tag, type(tag.kind) is str and tag.key.__hash__ is not None)


def _from_itag(content: Any) -> ImplTag:
    itag = ImplTag(*content)
    return _known(itag, type(itag.tag) is Tag and type(itag.stream) is str)


def _from_keys(content: Any) -> KeySet:
    keys = KeySet(*content)
    sets = _all_of(frozenset, (keys.classes, keys.extra, keys.missing))
    return _known(keys, sets and _all_of(int, (keys.modulus, *keys.classes)) and keys.modulus > 0)


def _pairs_of(one: type, pairs: Any) -> bool:
    """Return whether `pairs` is a tuple of pairs of a text and a value of that type."""
    if type(pairs) is not tuple or not _all_of(tuple, pairs):
        return False
    names, parts = zip(*pairs, strict=True) if pairs else ((), ())
    return _all_of(str, names) and _all_of(one, parts)


def _from_tags(content: Any) -> TagSet:
    tags = TagSet(*content)
    return _known(tags, _pairs_of(KeySet, tags.kinds) and type(tags.others) is bool)


def _from_itags(content: Any) -> ImplTagSet:
    itags = ImplTagSet(content)
    return _known(itags, _pairs_of(TagSet, itags.streams))


def _from_heartbeat(content: Any) -> Heartbeat:
    beat = Heartbeat(*content)
    return _known(beat, type(beat.stream) is str and type(beat.ts) is int)


def _from_event(content: Any) -> Event:
    event = Event(*content)
    stamped = type(event.stream) is str and type(event.ts) is int
    return _known(event, type(event.tag) is Tag and stamped)


def _to_keys(keys: KeySet) -> list[Any]:
    return [keys.modulus, keys.classes, keys.extra, keys.missing]


codec.add_text_type(Kind)
codec.add_forms(
    [
        Form(50, (Tag,), lambda tag: [tag.kind, tag.key], _from_tag),
        Form(51, (ImplTag,), lambda itag: [itag.tag, itag.stream], _from_itag),
        Form(52, (KeySet,), _to_keys, _from_keys),
        Form(53, (TagSet,), lambda tags: [tags.kinds, tags.others], _from_tags),
        Form(54, (ImplTagSet,), lambda itags: itags.streams, _from_itags),
        Form(55, (OrderKey,), _to_key, _from_key, is_raw=True),
        Form(56, (Heartbeat,), list, _from_heartbeat, is_raw=True),
        Form(57, (Event,), list, _from_event),
        Form(58, (EventBatch,), _to_events, _from_events),
        Form(59, (OutputBatch,), _to_outputs, _from_outputs),
    ]
)
