"""Trees: values as nested data that msgpack itself carries.

None, bool, int, float, str, bytes, lists, and dictionaries with text keys are msgpack's own. Everything else is a map of one
entry `{code: content}` with an integer code from a closed table of *forms*; the content is again such a tree. (An extension
type would pack each level separately and copy its bytes again; a map is packed in the same pass.) Integers beyond 64 bits
are the one extension type, because only the packer itself finds them.

Lists are examined as a whole: a list of plain values goes to the packer unchanged; a list of many tuples of one length, or of
dictionaries with the same text keys, is written by columns. There are two kinds of trees, which are read in the same way: one is
equal for equal values of equal types, and the other keeps the order of dictionaries.

>>> unpack(pack(plain((1, {2, 3}))))
(1, {2, 3})
>>> plain((1, 2.5)), plain({"b": 1, "a": 2}), in_order({"b": 1, "a": 2})
({1: [1, 2.5]}, {'a': 2, 'b': 1}, {'b': 1, 'a': 2})
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, pairwise, repeat
from math import nan
from operator import itemgetter
from typing import Any

import msgpack

from dgs.codec.forms import Form, add_forms, form_of, unknown, value_of
from dgs.errors import CodecError

DEEPEST = 250
"""The most levels of msgpack arrays and maps in a value; a tuple, set or object takes two or three."""

FEWEST_ROWS = 8
"""The least length of a list of tuples or dictionaries of one shape that is written by columns."""

BIG_INT = 1
"""The one extension type: a big-endian two's complement integer."""

TUPLE, SET, FROZENSET, DICT, ROWS, RECORDS = 1, 2, 3, 4, 5, 6

_PLAIN = frozenset([str, int, bool, type(None), bytes])
_PLAIN_OR_FLOAT = _PLAIN | {float}


class Trees:
    """Makes the trees of values, for the packer.

    `keeps_order`: dictionaries come back with their entries in the original order. Without it they are sorted, and equal values of
    equal types have equal trees.
    """

    def __init__(self, *, keeps_order: bool) -> None:
        self._keeps_order = keeps_order

    def of(self, value: Any, depth: int = 0) -> Any:
        """Return the tree of a value. Raises CodecError."""
        one = type(value)
        if one in _PLAIN:
            return value
        if one is float:
            return value if value == value else nan  # noqa: PLR0124 - only NaN differs from itself
        if depth > DEEPEST:
            raise too_deep()
        if one in _CONTAINERS:
            return _CONTAINERS[one](self, value, depth)
        form = form_of(one)
        content = form.to(value)
        return {form.code: content if form.is_raw else self.of(content, depth + 1)}

    def of_list(self, values: list[Any], depth: int) -> Any:
        """Return the tree of a list."""
        if depth > DEEPEST:
            raise too_deep()
        kinds = set(map(type, values))
        if len(kinds) == 1 and len(values) >= FEWEST_ROWS:
            if tuple in kinds and len(widths := set(map(len, values))) == 1 and (width := widths.pop()):
                return {ROWS: [self.of_list(_column(values, i), depth + 3) for i in range(width)]}
            if dict in kinds and (names := self._same_names(values)):
                return {RECORDS: [names, [self.of_list(_column(values, name), depth + 4) for name in names]]}
        return self._items(values, kinds, depth)

    def _items(self, values: list[Any], kinds: set[type], depth: int) -> list[Any]:
        """Return the trees of the values one by one; values that the packer takes directly are unchanged."""
        if kinds <= _PLAIN:
            return values
        if kinds <= _PLAIN_OR_FLOAT:
            return _with_one_nan(values)
        return [self.of(value, depth + 1) for value in values]

    def _same_names(self, rows: list[dict[Any, Any]]) -> list[str]:
        """Return the keys if all rows have the same ones, all are text, and no order is lost; else an empty list."""
        first = rows[0].keys()
        if not all(map(first.__eq__, map(dict.keys, rows))) or not _are_text(rows):
            return []
        if not self._keeps_order:
            return sorted(first)
        names = list(first)
        return names if all(map(names.__eq__, map(list, rows))) else []

    def of_dict(self, value: dict[Any, Any], depth: int) -> Any:
        """Return the tree of a dictionary."""
        kinds = set(map(type, value))
        if kinds <= {str}:
            names = list(value) if self._keeps_order else sorted(value)
            values = [value[name] for name in names]
            return dict(zip(names, self._items(values, set(map(type, values)), depth), strict=True))
        keys = list(value)
        if self._keeps_order:
            tree = self.of_list(keys, depth + 2)
        else:
            keys, tree = self._ordered(keys, depth + 2)
        return {DICT: [tree, self.of_list([value[key] for key in keys], depth + 2)]}

    def of_set(self, value: set[Any] | frozenset[Any], depth: int) -> Any:
        """Return the tree of a set."""
        code = SET if type(value) is set else FROZENSET
        return {code: self._ordered(list(value), depth + 1)[1]}

    def _ordered(self, values: list[Any], depth: int) -> tuple[list[Any], Any]:
        """Return the elements of a set in an order that depends on their values only, and their tree.

        The order is that of the values if Python orders them, else that of their bytes. The tree of each is made only once: nested sets
        would otherwise take exponential time.
        """
        if _have_order(values):
            ordered = sorted(values)
            return ordered, self.of_list(ordered, depth)
        trees = [self.of(value, depth + 1) for value in values]
        packed = list(map(pack, trees))
        order = sorted(range(len(values)), key=packed.__getitem__)
        return [values[i] for i in order], [trees[i] for i in order]


def _column(rows: list[Any], name: int | str) -> list[Any]:
    return list(map(itemgetter(name), rows))


def _are_text(rows: list[dict[Any, Any]]) -> bool:
    """Return whether every key is exactly a str, not another type that equals one."""
    return set(map(type, chain.from_iterable(rows))) == {str}


def _with_one_nan(values: list[Any]) -> list[Any]:
    """Return the values with every NaN replaced by the same one. A sum quickly shows whether there is a NaN."""
    try:
        total = sum(values)
    except (TypeError, OverflowError):
        total = nan
    if total == total:  # noqa: PLR0124 - only NaN differs from itself
        return values
    return [value if value == value else nan for value in values]  # noqa: PLR0124


def _have_order(values: list[Any]) -> bool:
    """Return whether Python orders the values totally: integers, texts, or tuples of one length with such columns."""
    kinds = set(map(type, values))
    if kinds <= {int} or kinds <= {str}:
        return True
    if kinds != {tuple} or len(widths := set(map(len, values))) != 1:
        return False
    return all(_have_order(_column(values, i)) for i in range(widths.pop()))


def add_text_type(one: type) -> None:
    """Encode values of this subclass of str as plain text."""
    _CONTAINERS[one] = lambda _trees, value, _depth: str(value)


def too_deep() -> CodecError:
    """Return the error for a value that is nested too deeply, or contains itself."""
    return CodecError(
        problem=f"cannot encode a value nested deeper than {DEEPEST} levels, or one that contains itself"
    )


def pack(tree: Any) -> bytes:
    """Return the bytes of a tree."""
    return msgpack.Packer(strict_types=True, default=_beyond).pack(tree)  # type: ignore[no-any-return]


def pack_with_sizes(tree: list[Any], at: int) -> tuple[bytes, list[int]]:
    """Return the bytes of a tree that is a list, and the number of bytes of each item of the list at position `at` in it.

    >>> pack_with_sizes([1, ["a", "bcd"], 2], 1) == (pack([1, ["a", "bcd"], 2]), [2, 4])
    True
    """
    packer = msgpack.Packer(strict_types=True, default=_beyond, autoreset=False)
    packer.pack_array_header(len(tree))
    for part in tree[:at]:
        packer.pack(part)
    packer.pack_array_header(len(tree[at]))
    ends = [len(packer.getbuffer())]
    for item in tree[at]:
        packer.pack(item)
        ends.append(len(packer.getbuffer()))
    for part in tree[at + 1 :]:
        packer.pack(part)
    return packer.bytes(), [end - begin for begin, end in pairwise(ends)]


def _beyond(value: Any) -> Any:
    if type(value) is not int:
        raise unknown(type(value))
    size = value.bit_length() // 8 + 1
    return msgpack.ExtType(BIG_INT, value.to_bytes(size, "big", signed=True))


def unpack(data: bytes | bytearray | memoryview) -> Any:
    """Return the value of the bytes. May raise anything for bytes that `pack` did not make; allocates no more than the data's size."""
    return msgpack.unpackb(
        data, raw=False, strict_map_key=False, object_hook=_restored, ext_hook=_big_int, use_list=True
    )


def _restored(entries: dict[Any, Any]) -> Any:
    if len(entries) == 1:
        ((code, content),) = entries.items()
        if type(code) is int:
            return value_of(code, content)
    return entries


def _big_int(code: int, data: bytes) -> int:
    if code != BIG_INT:
        raise CodecError(problem=f"extension type {code} is not one of the codec's")
    return int.from_bytes(data, "big", signed=True)


def _records(content: Any) -> list[dict[str, Any]]:
    names, columns = content
    if len(names) != len(columns):
        raise CodecError(problem="the columns of a list of dictionaries do not have its names")
    return records_of(tuple(names), columns)


def records_of(names: tuple[str, ...], columns: Sequence[Iterable[Any]]) -> list[dict[str, Any]]:
    """Return records of one column of values for each name. A display of a few fields takes 0.6 of the time of `dict`.

    >>> records_of(("a", "b"), ([1, 2], "xy"))
    [{'a': 1, 'b': 'x'}, {'a': 2, 'b': 'y'}]
    """
    rows = zip(*columns, strict=True)
    display = _DISPLAYS.get(len(names))
    return list(map(dict, map(zip, repeat(names), rows))) if display is None else display(rows, *names)


_DISPLAYS: dict[int, Callable[..., list[dict[str, Any]]]] = {
    1: lambda rows, a: [{a: v} for (v,) in rows],
    2: lambda rows, a, b: [{a: v, b: w} for v, w in rows],
    3: lambda rows, a, b, c: [{a: v, b: w, c: x} for v, w, x in rows],
    4: lambda rows, a, b, c, d: [{a: v, b: w, c: x, d: y} for v, w, x, y in rows],
    5: lambda rows, a, b, c, d, e: [{a: v, b: w, c: x, d: y, e: z} for v, w, x, y, z in rows],
    6: lambda rows, a, b, c, d, e, f: [{a: u, b: v, c: w, d: x, e: y, f: z} for u, v, w, x, y, z in rows],
    7: lambda rows, a, b, c, d, e, f, g: [
        {a: t, b: u, c: v, d: w, e: x, f: y, g: z} for t, u, v, w, x, y, z in rows
    ],
    8: lambda rows, a, b, c, d, e, f, g, h: [
        {a: s, b: t, c: u, d: v, e: w, f: x, g: y, h: z} for s, t, u, v, w, x, y, z in rows
    ],
}
"""Records of rows, by the number of fields."""

_CONTAINERS: dict[type, Callable[[Trees, Any, int], Any]] = {
    list: Trees.of_list,
    tuple: lambda trees, value, depth: {TUPLE: trees.of_list(list(value), depth + 1)},
    dict: Trees.of_dict,
    set: Trees.of_set,
    frozenset: Trees.of_set,
}
"""Types whose trees are made here, because of order or shape; their forms only decode."""

plain = Trees(keeps_order=False).of
"""Makes trees that are equal for equal values of equal types: dictionaries are sorted."""

in_order = Trees(keeps_order=True).of
"""Makes trees from which dictionaries come back in their order."""


def _unreachable(value: Any) -> Any:
    raise CodecError(problem=f"no form for {type(value)}")


add_forms(
    [
        Form(TUPLE, (), _unreachable, tuple),
        Form(SET, (), _unreachable, set),
        Form(FROZENSET, (), _unreachable, frozenset),
        Form(DICT, (), _unreachable, lambda content: dict(zip(*content, strict=True))),
        Form(ROWS, (), _unreachable, lambda content: list(zip(*content, strict=True))),
        Form(RECORDS, (), _unreachable, _records),
    ]
)
