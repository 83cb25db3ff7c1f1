"""Names in a SQL query: the tables of a FROM with their columns, and the meaning of a name in the text.

>>> scope = Scope((Range("f", (("carrier", "carrier"), ("day", "day"))), Range("w", (("day", "w.day"),))))
>>> text = SqlText("q.sql", "select w.day from f, w")
>>> scope.field(text.tree().find(exp.Column), text)
'w.day'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dgs.errors.nearest import did_you_mean
from dgs.query.sql.sql_syntax import SqlText


@dataclass(frozen=True, slots=True)
class Range:
    """A table of a FROM: its name there, and its columns, each with the name of its field in the rows."""

    name: str
    columns: tuple[tuple[str, str], ...]

    def named(self, column: str) -> str | None:
        """Return the field of a column, ignoring case, None if there is none."""
        wanted = column.lower()
        return next((own for name, own in self.columns if name.lower() == wanted), None)


@dataclass(frozen=True, slots=True)
class Scope:
    """The tables that a part of a query can name, in order. SQL ignores the case of names.

    `using`: columns merged by USING, by names in lower case, with the field of the bare name.
    """

    ranges: tuple[Range, ...] = ()
    using: Mapping[str, str] = field(default_factory=dict)

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of all columns."""
        return tuple(own for one in self.ranges for _, own in one.columns)

    def with_range(self, added: Range) -> Scope:
        """Return the scope with one more table."""
        return replace(self, ranges=(*self.ranges, added))

    def has(self, column: exp.Column) -> bool:
        """Return whether a name is a column here."""
        return any(True for _ in self._found(column))

    def field(self, column: exp.Column, text: SqlText) -> str:
        """Return the field of a column. Raises QueryError Q201, Q202."""
        found = dict(self._found(column))
        if len(set(found.values())) == 1:
            return next(iter(found.values()))
        if found:
            of = " and ".join(f"{name}.{column.name}" for name in found)
            raise text.error(
                "Q202",
                column,
                f"{column.name!r} is ambiguous: it is {of}",
                "Put the name of the table before it.",
            )
        table, name = column.table, column.name
        if table and not any(one.name.lower() == table.lower() for one in self.ranges):
            hint = did_you_mean(table, [one.name for one in self.ranges])
            raise text.error("Q201", column, f"no table {table!r} here{hint or self._tables()}", name=table)
        known = [one for one in self.ranges if not table or one.name.lower() == table.lower()]
        of = known[0].name if len(known) == 1 else "no table here"
        has = "has no column" if len(known) == 1 else "has a column"
        hint = did_you_mean(name, [own for one in known for own, _ in one.columns]) or _columns(known)
        raise text.error("Q201", column, f"{of} {has} {name!r}{hint}", name=name)

    def _tables(self) -> str:
        names = ", ".join(one.name for one in self.ranges)
        return f"; there are {names}" if names else "; there is no `from`"

    def _found(self, column: exp.Column) -> Iterator[tuple[str, str]]:
        """Yield the tables that have a column of that name, with its field."""
        table = column.table.lower()
        for one in self.ranges:
            found = one.named(column.name) if table in ("", one.name.lower()) else None
            if found is not None:
                yield one.name, found if table else self.using.get(column.name.lower(), found)

    def star(self, table: str = "") -> Iterator[tuple[str, str]]:
        """Yield the columns of `*` or `table.*`, with their fields. Columns of USING come once."""
        seen: set[str] = set()
        for one in self.ranges:
            if table.lower() not in ("", one.name.lower()):
                continue
            for name, own in one.columns:
                merged = None if table else self.using.get(name.lower())
                if merged is None or name.lower() not in seen:
                    yield name, merged or own
                seen.add(name.lower())


def _columns(ranges: list[Range]) -> str:
    names = [name for one in ranges for name, _ in one.columns]
    most = 12
    more = ", ..." if len(names) > most else ""
    return f"; there are {', '.join(names[:most])}{more}" if names else "; there is no `from`"
