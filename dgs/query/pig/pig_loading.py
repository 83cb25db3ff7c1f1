"""LOAD and STORE: what storage a script names, and the rows of its files."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dgs.errors import MissingInputError
from dgs.query.pig.pig_casts import as_type
from dgs.query.pig.pig_scope import ROW_NUMBER, Scope, Value
from dgs.query.pig.pig_storage import values_of
from dgs.query.pig.pig_types import BYTEARRAY, PigField, columns, declared, from_stored
from dgs.query.pig.text import pig_syntax as pig
from dgs.query.relation import Map, Relation, Source
from dgs.query.scalar import column
from dgs.query.types import INT, Schema

READ_BY, WRITTEN_BY = "\t", ","
"""Delimiters without USING: Piglet's, which reads by tabs and writes by commas."""

STORAGES = {"PIGSTORAGE": False, "PIGSTREAM": True, "TEXTLOADER": False}
"""Storages by name, with whether they read an endless stream."""

PEEKED = 100
"""The rows of a file from which the number of its fields is taken, if the script does not declare them."""


@dataclass(frozen=True, slots=True)
class StorageSpec:
    """A delimiter, and whether rows come as a stream."""

    delimiter: str
    is_stream: bool = False


@dataclass(frozen=True, slots=True)
class Load:
    """A file that LOAD reads."""

    path: str
    fields: tuple[PigField, ...]
    delimiter: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its stream."""
        return columns(self.fields)

    def source(self, name: str) -> Source:
        """Return the stream of its rows, each with its number."""
        types = zip(self.columns, (one.type.stored for one in self.fields), strict=True)
        return Source(name, Schema((*types, (ROW_NUMBER, INT))))

    def table(self, base_dir: Path) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of the file with their numbers. Raises MissingInputError."""
        for number, row in enumerate(self.rows(base_dir)):
            yield (*row, number)

    def rows(self, base_dir: Path) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of the file, or of the files of a directory or a pattern, in order. Raises MissingInputError."""
        for line in lines_of(self.path, base_dir):
            yield values_of(line, self.fields, self.delimiter)


def stem_of(path: str) -> str:
    """Return the name of a file without folders and extensions, as a name of a stream."""
    name = re.sub(r"\W+", "_", path.rstrip("/").rpartition("/")[2].split(".")[0])
    return name if name[:1].isalpha() else f"t_{name}"


def fields_of(source: Source) -> tuple[PigField, ...]:
    """Return the fields of a stream."""
    return tuple(PigField(name, from_stored(of)) for name, of in source.columns.fields if name != ROW_NUMBER)


def read_as(source: Source, fields: Sequence[PigField]) -> tuple[Relation, tuple[str, ...]]:
    """Return a stream as a relation of these fields, and its hidden columns. Raises QueryError Q201, Q204."""
    hidden = tuple(one for one in (ROW_NUMBER,) if one in source.columns)
    names = columns(fields)
    if source.columns.names == (*names, *hidden) and source.columns.types[: len(fields)] == tuple(
        one.type.stored for one in fields
    ):
        return source, hidden
    made = []
    for name, field in zip(names, fields, strict=True):
        value = Value(column(name), from_stored(source.columns.type(name, source.span)))
        made.append((name, as_type(value, field.type, is_asked=True).scalar))
    return Map(source, (*made, *((one, column(one)) for one in hidden))), hidden


def lines_of(path: str, base_dir: Path) -> Iterator[str]:
    """Yield the lines of a file, a directory or a pattern; `.gz` is read through gzip. Raises MissingInputError."""
    for one in _files(path, base_dir):
        with (
            gzip.open(one, "rt", encoding="utf-8")
            if one.suffix == ".gz"
            else one.open(encoding="utf-8") as text
        ):
            for line in text:
                yield line.rstrip("\r\n")


def _files(path: str, base_dir: Path) -> list[Path]:
    found = base_dir / path
    if found.is_dir():
        return [one for one in sorted(found.iterdir()) if one.is_file() and one.name[0] not in "._"]
    if found.is_file():
        return [found]
    some = sorted(base_dir.glob(path)) if not Path(path).is_absolute() and set(path) & set("*?[") else []
    if not some:
        raise MissingInputError(stream=stem_of(path), path=found, advice=MissingInputError.FROM_HERE)
    return some


def storage_of(statement: pig.Load | pig.Store, scope: Scope) -> StorageSpec:
    """Return the storage that a statement names. Raises QueryError Q110, Q204, Q206."""
    usual = READ_BY if isinstance(statement, pig.Load) else WRITTEN_BY
    given = statement.storage
    if given is None:
        return StorageSpec(usual)
    name = given.name.upper()
    if name not in STORAGES:
        remedy = "There are PigStorage, PigStream and TextLoader."
        raise scope.error("Q110", f"the storage {given.name} is not supported", remedy, given.at)
    if len(given.arguments) > 1:
        raise scope.error("Q206", f"{given.name} takes 1 argument, not {len(given.arguments)}", "", given.at)
    if name == "TEXTLOADER":
        return StorageSpec("\n")
    delimiter = _delimiter(given.arguments[0], scope) if given.arguments else usual
    return StorageSpec(delimiter, STORAGES[name])


def _delimiter(node: pig.Expression, scope: Scope) -> str:
    value = node.value if isinstance(node, pig.Literal) else scope.parameters.get(getattr(node, "name", ""))
    if not isinstance(value, str) or len(value) != 1:
        raise scope.error("Q204", f"a delimiter is one character, not {value!r}", "", node.at)
    return value


def loaded_schema(
    statement: pig.Load, path: str, storage: StorageSpec, base_dir: Path, scope: Scope
) -> tuple[PigField, ...]:
    """Return the fields that a LOAD declares; without AS, as many without names as its first rows have. Raises QueryError Q202."""
    if statement.fields:
        fields = tuple(map(declared, statement.fields))
        names = [one.name for one in fields]
        for place, one in enumerate(statement.fields):
            if one.name in names[:place]:
                raise scope.error("Q202", f"two fields are named {one.name!r}", "Rename one of them.", one.at)
        return fields
    return (PigField(None, BYTEARRAY),) * _count(path, storage.delimiter, base_dir)


def _count(path: str, delimiter: str, base_dir: Path) -> int:
    counts: Sequence[int] = [
        line.count(delimiter) + 1 for line, _ in zip(lines_of(path, base_dir), range(PEEKED), strict=False)
    ]
    return max(counts, default=1)
