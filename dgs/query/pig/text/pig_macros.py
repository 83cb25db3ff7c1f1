"""Macros and parameters: statements with arguments in place of parameters. Names are inserted as names, values as values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from dgs.query.errors import QueryError
from dgs.query.pig.text import pig_syntax as pig
from dgs.query.pig.text.pig_reading import SourceText

IN_TEXT = re.compile(r"\$(?:\{(\w+)\}|([a-zA-Z_]\w*))")


def expanded(node: Any, given: Mapping[str, pig.Expression], source: SourceText) -> Any:
    """Return a node of a macro's body with arguments in place of its parameters. Raises QueryError Q120."""
    if isinstance(node, pig.Parameter) and node.name in given:
        return given[node.name]
    if isinstance(node, tuple):
        return tuple(expanded(one, given, source) for one in node)
    if isinstance(node, pig.Dot):
        return replace(
            node, base=expanded(node.base, given, source), fields=expanded(node.fields, given, source)
        )
    if not is_dataclass(node):
        return node
    changed = {}
    for one in fields(node):
        value = getattr(node, one.name)
        if isinstance(value, str):
            changed[one.name] = _text(value, one.name, given, node, source)
        elif one.name != "at":
            changed[one.name] = expanded(value, given, source)
    return replace(node, **changed)  # type: ignore[type-var]


def _text(text: str, role: str, given: Mapping[str, pig.Expression], node: Any, source: SourceText) -> str:
    if role in ("path", "value"):
        return IN_TEXT.sub(lambda found: _inserted(found, given), text)
    if not text.startswith("$"):
        return text
    argument = given.get(text.strip("${}"))
    if isinstance(argument, pig.Name):
        return argument.text
    problem = f"{text} is no parameter" if argument is None else f"{text} must be the name of a relation"
    raise QueryError.of("Q120", problem, "", span=source.span(node.at))


def _inserted(found: re.Match[str], given: Mapping[str, pig.Expression]) -> str:
    argument = given.get(found[1] or found[2])
    if isinstance(argument, pig.Literal):
        return str(argument.value)
    return argument.text if isinstance(argument, pig.Name) else found[0]


def with_values(text: str, parameters: Mapping[str, str], at: int, source: SourceText) -> str:
    """Return the text of a path with the values of its parameters. Raises QueryError Q120."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name not in parameters:
            problem = f"the parameter ${name} has no value"
            raise QueryError.of("Q120", problem, f"Give it: -p {name}=...", span=source.span(at))
        return parameters[name]

    return IN_TEXT.sub(value, text)


def aliases_of(statement: pig.Statement) -> tuple[str, ...]:
    """Return the aliases that a statement gives a meaning."""
    if isinstance(statement, pig.Split):
        return tuple(one.alias for one in statement.branches)
    if isinstance(statement, pig.CallMacro | pig.Unsupported):
        return statement.aliases
    alias = getattr(statement, "alias", None)
    return () if alias is None else (alias,)
