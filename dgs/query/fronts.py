"""Front ends: the languages of queries, and how a text in one of them becomes a script of the algebra.

A front end is a function `script(text, sources, *, name, params)`. `sources` are the streams and tables by name, `name` that of the
file for errors, `params` the values of parameters. It defines no meaning: the algebra does.

>>> language_of("top.sql"), language_of("words.PIG"), language_of(None)
('sql', 'pig', 'sql')
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, cast

from dgs.errors import UsageError
from dgs.errors.nearest import did_you_mean
from dgs.query.errors import QueryError
from dgs.query.parameters import Parameters

if TYPE_CHECKING:
    from dgs.query.relation import Script, Source

FRONTS = {
    "sql": ("dgs.query.sql:script", ("sqlglot",)),
    "pig": ("dgs.query.pig:script", ("sqlglot", "lark")),
    "mrql": ("dgs.query.mrql:script", ("sqlglot", "lark")),
}
"""The languages (also extensions of files), with the place of the front end and the packages that it needs."""


def language_of(file: str | None, given: str | None = None) -> str:
    """Return the language of a text: the given one, else that of the file's extension, else SQL. Raises QueryError Q501."""
    if given is None:
        extension = "" if file is None else PurePath(file).suffix.lower().removeprefix(".")
        return extension if extension in FRONTS else "sql"
    if not isinstance(given, str) or given not in FRONTS:
        hint = did_you_mean(str(given), FRONTS) or f"; there are {', '.join(FRONTS)}"
        raise QueryError.of("Q501", f"no language {given!r}{hint}")
    return given


def text_in(path: str | Path) -> str:
    """Return the text of a query in a file. Raises UsageError if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        problem = "it is not UTF-8 text"
    except OSError as error:
        problem = str(error.strerror)
    raise UsageError(message=f"{path} cannot be read: {problem}")


def needed(package: str, what: str) -> None:
    """Raise QueryError Q503 unless a package is installed. `what`: what needs it."""
    if find_spec(package) is None:
        raise QueryError.of(
            "Q503", f"{what} needs {package}, which is not installed", "Install it: pip install 'dgs[query]'"
        )


def read(
    text: str,
    sources: Mapping[str, Source],
    *,
    lang: str = "sql",
    name: str | None = None,
    params: Mapping[str, Any] | None = None,
) -> Script:
    """Return the script of a text. Raises QueryError with the place in the text, Q503 if a package is missing.

    Values of `params` that the text does not ask for are an error, too, unless they are `Parameters`, which several texts may share.
    """
    where, packages = FRONTS[language_of(None, lang)]
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise UsageError(message=f"the query {text[:60]!r} is not UTF-8 text")
    for package in packages:
        needed(package, f"a query in {lang}")
    module, _, function = where.partition(":")
    front = cast("Callable[..., Script]", getattr(import_module(module), function))
    given = Parameters.of(params or {})
    script = front(text, sources, name=name or f"query.{lang}", params=given)
    if given is not params:
        given.check(script, text)
    return script
