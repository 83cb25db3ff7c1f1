"""Queries: one algebra for SQL, MRQL and Pig Latin, with a reference interpreter, as programs that keep their answers (papers/mrql, papers/piglet).

Needs `pip install 'dgs[query]'`. `import dgs` imports none of this.

- `relation`: the ten nodes and `Script`; `types`: schemas and values; `errors`: `QueryError` and `Span`.
- `scalar`: expressions over a row, `functions` and `meanings`: the table of functions; `aggregates`: those of groups.
- `evaluate`: the reference interpreter.
- `split`: divides a query into compactions and an answer; `compact`: the kept state; `sql_text`, `duck`: statements and DuckDB.
- `build`: queries in Python; `program`: `QueryProgram`.
- `standing`: `Query`, which `dgs.query(text)` makes, and the cost of keeping its answer.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dgs.query.standing import Query

__all__ = ["query"]


def query(text: str, lang: str = "sql", **options: Any) -> Query:
    """Return a query whose answer is kept; `options` are those of `dgs.query.standing.Query`.

    Raises QueryError: Q503 if a package is missing; mistakes in the text when the columns of its tables are known.
    """
    from dgs.query.fronts import language_of, needed

    needed("sqlglot", f"a query in {language_of(None, lang)}")
    from dgs.query.standing import Query

    return Query(text, lang, **options)


class _Callable(ModuleType):
    """Makes the package `dgs.query` callable, so that `dgs.query(text)` works however it was imported."""

    def __call__(self, *arguments: Any, **options: Any) -> Query:
        return query(*arguments, **options)


sys.modules[__name__].__class__ = _Callable
