"""`source(..)` and `stream(..)` of MRQL: which file a script reads, how its lines are cut, and the types of its rows.

The name of a source is that of its file without extensions: `stream(csv, "data/CollegeMsg.txt.gz", " ")` is `CollegeMsg` for `--from` and `streams:`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from dgs.errors.nearest import did_you_mean
from dgs.query.errors import QueryError
from dgs.query.mrql import mrql_tree as t
from dgs.query.mrql.mrql_loops import Loops
from dgs.query.mrql.mrql_parser import QueryText, parse_statement, statements_of
from dgs.query.mrql.mrql_terms import Fields, Rows, Term, Value
from dgs.query.relation import Source
from dgs.query.scalar import column
from dgs.query.types import BOOL, FLOAT, INT, TEXT, TIME, Schema, Type, bag, list_of, record

FORMATS = ("line", "csv", "json", "parquet")
TYPES = {"int": INT, "long": INT, "short": INT, "float": FLOAT, "double": FLOAT, "string": TEXT, "text": TEXT}
TYPES |= {"bool": BOOL, "boolean": BOOL, "time": TIME}


@dataclass(frozen=True, slots=True)
class Reading:
    """A file that a script reads. `schema`: that of `type(..)`; None if the file's header or its values give it."""

    name: str
    format: str
    path: str
    delimiter: str | None
    changes: bool
    schema: Schema | None


def readings(text: QueryText) -> tuple[Reading, ...]:
    """Return the files that a script reads, in order, each once. Statements that cannot be read are left out."""
    found: dict[str, Reading] = {}
    for statement in statements_of(text.text):
        try:
            tree = parse_statement(text, statement)
            for one in _readers_in(tree):
                reading = reading_of(text, one)
                found.setdefault(reading.name, reading)
        except QueryError:
            continue  # the translation reports it
    return tuple(found.values())


def _readers_in(tree: t.Tree) -> Iterator[t.ReaderOf]:
    if isinstance(tree, t.ReaderOf):
        yield tree
    for part in tree.parts():
        yield from _readers_in(part)


def reading_of(text: QueryText, tree: t.ReaderOf) -> Reading:
    """Return the reading of a `source` or `stream`. Raises QueryError Q110, Q204 or Q206."""
    if tree.format not in FORMATS:
        hint = did_you_mean(tree.format, FORMATS)
        raise text.error(
            "Q110", tree.at, f"no format {tree.format!r}{hint}", f"There are {', '.join(FORMATS)}."
        )
    given = [
        one.value for one in tree.arguments if isinstance(one, t.Constant) and isinstance(one.value, str)
    ]
    if not given or len(given) != len(tree.arguments) or len(given) > 2:  # noqa: PLR2004 - a path and a delimiter
        problem = (
            f"`{'stream' if tree.changes else 'source'}` takes a format, a path, a delimiter and `type(..)`"
        )
        raise text.error("Q206", tree.at, problem, "The path and the delimiter are texts.")
    schema = None if tree.row is None else _row_schema(text, tree.row)
    return Reading(
        PurePosixPath(given[0]).name.split(".")[0],
        tree.format,
        given[0],
        given[1] if len(given) > 1 else None,
        tree.changes,
        schema,
    )


def _row_schema(text: QueryText, tree: t.TypeTree) -> Schema:
    of = _type(text, tree)
    return Schema(of.fields) if of.kind == "record" else Schema((("value", of),))


def _type(text: QueryText, tree: t.TypeTree) -> Type:
    parts = [_type(text, one) for one in tree.of]
    if tree.kind == "record":
        return record(*zip(tree.names, parts, strict=True))
    if tree.kind == "tuple":
        return record(*((f"_{place}", one) for place, one in enumerate(parts)))
    if tree.kind in ("bag", "list"):
        return (bag if tree.kind == "bag" else list_of)(parts[0])
    found = TYPES.get(tree.names[0])
    if found is None:
        raise text.error("Q204", tree.at, f"no type {tree.names[0]!r}{did_you_mean(tree.names[0], TYPES)}")
    return found


class Readers(Loops):
    """Reads sources. `given`: the sources of the caller by name, whose schema counts if the text has no `type(..)`."""

    def __init__(self, text: QueryText, given: Mapping[str, Source]) -> None:
        super().__init__(text)
        self.given = given
        self.loop_names |= set(given)

    def source(self, tree: t.ReaderOf) -> Rows:
        """Return the relation of `source(..)` or `stream(..)`. Raises QueryError Q201 if its columns are not known."""
        reading = reading_of(self.text, tree)
        given = self.given.get(reading.name)
        schema = (
            reading.schema if reading.schema is not None else given.columns if given is not None else None
        )
        if schema is None:
            remedy = f"Name its file with `--from {reading.name}=PATH`, add a stream of that id, or give its `type(..)`."
            raise self.text.error("Q201", tree.at, f"the columns of {reading.name!r} are not known", remedy)
        deletes = given is not None and given.deletes
        node = Source(reading.name, schema, reading.changes, deletes, span=self.text.span(tree.at))
        return Rows(node, self.whole_row(schema, is_tuple=tree.row is not None and tree.row.kind == "tuple"))

    def whole_row(self, schema: Schema, *, is_tuple: bool = False) -> Term:
        """Return the element of a relation: all columns, as a record or tuple."""
        if schema.names == ("value",):
            return Value(column("value"))
        return Fields(tuple((name, Value(column(name))) for name in schema.names), is_tuple)
