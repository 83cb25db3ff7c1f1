"""The tag of each row: a constant, made from columns, or given in a column `tag`.

Columns are dictionary-encoded first, so Python handles each distinct value once and not each row.

>>> from dgs.job.schema import StreamConfig
>>> from dgs.model.program import Program
>>> from dgs.workers.sources.rows import RawRows
>>> views = StreamConfig(id="v", tags={"kind": "view", "key": {"column": "page"}}, source={"memory": "v"})
>>> Tagging(views, Program()).tags(RawRows(0, 3, {"page": ["home", "shop", "home"]}, where="v"))
((view('home'), view('shop')), array([0, 1, 0], dtype=int32))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dgs.errors import MalformedRowError
from dgs.job.schema import ColumnRef, StreamConfig, TagConfig
from dgs.job.stream_tags import literal_tag
from dgs.model.columns import distinct, hashable
from dgs.model.events import Codes
from dgs.model.program import Program
from dgs.model.tags import Kind, Tag, key_problem
from dgs.workers.sources.rows import RawRows

TAG_COLUMN = "tag"
Distinct = tuple[list[Any], npt.NDArray[np.int64]]


class TagValueError(Exception):
    """A value cannot be part of a tag. The text says why."""


class Tagging:
    """Makes the tags of the rows of one stream. `columns` are the names of the columns it needs."""

    def __init__(self, config: StreamConfig, program: Program) -> None:
        self.stream = config.id
        self.literal = literal_tag(config, program)
        self._program = program
        self._kinds: dict[str, Kind] = {}
        self._parts: tuple[Any, ...] = ()
        if self.literal is None and isinstance(config.tags, TagConfig):
            self._parts = config.tags.parts
        elif self.literal is None:
            self._parts = (ColumnRef(column=TAG_COLUMN),)
        self.columns = tuple(part.column for part in self._parts if isinstance(part, ColumnRef))
        self._key_is_expected = any(isinstance(part, ColumnRef) for part in self._parts[1:])

    def tags(self, rows: RawRows) -> tuple[tuple[Tag, ...], Codes | None]:
        """Return the distinct tags of the rows and the tag of each (None: all the same).

        Raises MalformedRowError naming the first row whose kind or key is null or of the wrong type.
        """
        if self.literal is not None:
            return (self.literal,), None
        if len(self._parts) == 1:
            return self._each(distinct(rows.columns[TAG_COLUMN]), self.tag_of, rows.first)
        kind, key = self._parts
        if not isinstance(key, ColumnRef):
            kinds = distinct(rows.columns[kind.column])
            return self._each(kinds, lambda value: self.made_of(value, key), rows.first)
        keys = distinct(rows.columns[key.column])
        if not isinstance(kind, ColumnRef):
            return self._each(keys, lambda value: self.made_of(kind, value), rows.first)
        pairs = _pairs(distinct(rows.columns[kind.column]), keys)
        return self._each(pairs, lambda pair: self.made_of(*pair), rows.first)

    def tag_of(self, value: Any) -> Tag:
        """Return the tag that a row gives: a Tag, a kind, or a pair of kind and key."""
        if isinstance(value, Tag):
            self.check_kind(value.kind)
            return value
        if isinstance(value, (list, tuple)) and len(value) == 2:  # noqa: PLR2004
            return self.made_of(value[0], value[1])
        if isinstance(value, str):
            return self.made_of(value, None)
        if value is None:
            raise TagValueError("the tag is missing or null")
        raise TagValueError(f"{value!r} is not a tag: expected a kind or a pair [kind, key]")

    def made_of(self, kind: Any, key: Any) -> Tag:
        """Return the tag of a kind and a key; kinds without keys ignore the key."""
        if not isinstance(kind, str):
            raise TagValueError("the kind is missing or null" if kind is None else f"{kind!r} is not a kind")
        name = str(kind)
        declared = self._declared(name)
        if not declared.is_keyed or (key is None and declared.domain is object and not self._key_is_expected):
            return Tag(name)
        if key is None:
            raise TagValueError(f"the key of kind {name!r} is missing or null")
        usable = _checked(hashable(key), declared)
        if (problem := key_problem(name, usable)) is not None:
            raise TagValueError(problem)
        return Tag(name, usable)

    def check_kind(self, name: str) -> None:
        """Raise TagValueError if the program does not declare a kind."""
        self._declared(name)

    def _declared(self, name: str) -> Kind:
        if name not in self._kinds:
            if (problem := self._program.kind_problem(name)) is not None:
                raise TagValueError(problem)
            self._kinds[name] = self._program.kind(name)
        return self._kinds[name]

    def _each(
        self, found: Distinct, make: Callable[[Any], Tag], first: int
    ) -> tuple[tuple[Tag, ...], Codes | None]:
        values, codes = found
        tags: dict[Tag, int] = {}
        place = np.empty(len(values), dtype=np.int32)
        for i, value in enumerate(values):
            try:
                place[i] = tags.setdefault(make(value), len(tags))
            except TagValueError as problem:
                row = first + int(np.argmax(codes == i))
                field = self.columns[-1 if "key" in str(problem) else 0]
                raise MalformedRowError(
                    stream=self.stream, row=row, problem=str(problem), field=field
                ) from None
        return tuple(tags), (None if len(tags) == 1 else place[codes])


def _pairs(left: Distinct, right: Distinct) -> Distinct:
    width = max(len(right[0]), 1)
    both, rows, codes = np.unique(left[1] * width + right[1], return_index=True, return_inverse=True)
    order = np.argsort(rows)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    values = [(left[0][pair // width], right[0][pair % width]) for pair in both[order].tolist()]
    return values, place[codes]


def _checked(key: Any, kind: Kind) -> Any:
    expected = kind.domain
    if not isinstance(expected, type) or isinstance(key, expected):
        return key
    if expected is float and isinstance(key, int):
        return float(key)
    name, got = expected.__name__, type(key).__name__
    raise TagValueError(f"key {key!r} of kind {str(kind)!r} must be {name}, not {got}")
