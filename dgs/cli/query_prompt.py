"""`dgs query --repl`: reads statements from the keyboard, or from a pipe, which gets no prompts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dgs.api.queries.query_tables import Table, TableFile
    from dgs.query.prompt import Known, Prompt

WELCOME = "Statements end with ; and :help says more."


def converse(lang: str | None, tables: list[Table | TableFile], params: dict[str, Any]) -> None:
    """Read lines until the input ends or `:quit`. Raises QueryError Q501, Q503, and what reading the tables raises."""
    from dgs.query.fronts import needed

    needed("sqlglot", "a query")
    from dgs.api.queries.script_files import store
    from dgs.query.prompt import Prompt

    prompt = Prompt(lang or "sql", tables=_known(tables), params=params, store=store)
    is_person = sys.stdin.isatty()
    for line in _typed(prompt) if is_person else sys.stdin:
        _show(prompt.fed(line))
        if prompt.is_done:
            break
    _show(prompt.ended())


def _known(tables: list[Table | TableFile]) -> dict[str, Known]:
    from dgs.api.queries.query_tables import Table
    from dgs.query.compact.arrow_rows import fitted, from_arrow, schema_of
    from dgs.query.prompt import Known
    from dgs.query.relation import Source

    found = {}
    for one in tables:
        table = one if isinstance(one, Table) else one.read(Path())
        schema = schema_of(table.rows.schema)
        found[one.name] = Known(Source(one.name, schema), from_arrow(fitted(table.rows, schema), schema))
    return found


def _typed(prompt: Prompt) -> Iterator[str]:
    """Yield the lines that a person types."""
    print(WELCOME)
    read = _reader()
    while True:
        try:
            yield read("...> " if prompt.is_waiting else f"{prompt.lang}> ")
        except EOFError:
            return
        except KeyboardInterrupt:
            print()


def _reader() -> Callable[[str], str]:
    if find_spec("prompt_toolkit") is not None:
        from prompt_toolkit import PromptSession

        session: Any = PromptSession()
        return lambda text: str(session.prompt(text))
    if find_spec("readline") is not None:
        import readline  # noqa: F401 - gives `input` editing and a history
    return input


def _show(lines: list[str]) -> None:
    for line in lines:
        print(line, flush=True)
