"""From lark's parse trees to statements of `pig_syntax`: one maker for each rule of `pig.lark`.

A maker gets the offset of its rule and the values of the rules inside, None for parts that the text leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from lark import Token, Transformer

from dgs.query.pig.text import pig_syntax as pig

Maker = Callable[..., Any]

ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
NUMBERS: dict[str, Callable[[str], float]] = {
    "INTEGER": int,
    "LONG": lambda text: int(text[:-1]),
    "DECIMAL": lambda text: float(text.rstrip("fF")),
}
WORDS: dict[str, bool | None] = {"TRUE": True, "FALSE": False, "NULL": None}


class PigTree(Transformer[Token, Any]):
    """Makes a statement of its parse tree. `base`: the offset of the statement in its script."""

    def __init__(self, base: int) -> None:
        super().__init__()
        self.base = base

    def __default__(self, data: str, children: list[Any], meta: Any) -> Any:
        """Return the value of a rule, by its maker."""
        return MAKERS[str(data)](self.base + getattr(meta, "start_pos", 0), *children)


def unquoted(text: str) -> str:
    r"""Return the characters of a quoted constant.

    >>> unquoted(r"'it\'s'")
    "it's"
    """
    return ESCAPE.sub(_character, text[1:-1])


def _character(found: re.Match[str]) -> str:
    name = found[1]
    return chr(int(name[1:], 16)) if len(name) > 1 else ESCAPES.get(name, name)


def _node(kind: Callable[..., Any]) -> Maker:
    return lambda at, *parts: kind(*parts, at=at)


def _show(what: str) -> Maker:
    return lambda at, source: pig.Show(what, source, at=at)


def _operation(operator: str) -> Maker:
    return lambda at, *operands: pig.Operation(operator, operands, at=at)


def _denied(operator: str) -> Maker:
    return lambda at, *operands: pig.Operation("not", (pig.Operation(operator, operands, at=at),), at=at)


def _build(kind: str) -> Maker:
    return lambda at, *elements: pig.Build(kind, _given(elements), at=at)


def _given(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(one for one in parts if one is not None)


def _lower(token: Any) -> str | None:
    return None if token is None else str(token).lower()


def _tuple(_at: int, *parts: Any) -> tuple[Any, ...]:
    return _given(parts)


def _names(_at: int, *parts: Any) -> tuple[str, ...]:
    return tuple(str(one) for one in _given(parts))


def _literal(at: int, token: Token) -> pig.Literal:
    if token.type in NUMBERS:
        return pig.Literal(NUMBERS[token.type](token), at=at)
    return pig.Literal(WORDS[token.type] if token.type in WORDS else unquoted(token), at=at)


def _binary(at: int, left: Any, operator: Token, right: Any) -> pig.Operation:
    return pig.Operation(str(operator), (left, right), at=at)


def _negative(at: int, _minus: Token, operand: Any) -> pig.Expression:
    if isinstance(operand, pig.Literal) and type(operand.value) in (int, float):
        return pig.Literal(-operand.value, at=at)  # type: ignore[operator]
    return pig.Operation("negative", (operand,), at=at)


def _case(at: int, *parts: Any) -> pig.Expression:
    others = [one for one in parts if not isinstance(one, tuple)]
    result: pig.Expression = others[0] if others else pig.Literal(None, at=at)
    for condition, value in reversed([one for one in parts if isinstance(one, tuple)]):
        result = pig.Operation("if", (condition, value, result), at=at)
    return result


def _call(at: int, function: pig.Expression, *arguments: Any) -> pig.Call:
    return pig.Call(_dotted(function), _given(arguments), at=at)


def _dotted(function: pig.Expression) -> str:
    if isinstance(function, pig.Dot) and len(function.fields) == 1:
        return f"{_dotted(function.base)}.{_dotted(function.fields[0])}"
    return function.text if isinstance(function, pig.Name) else ""


def _bag_type(at: int, *parts: Any) -> pig.FieldType:
    inside = parts[-1].inside if parts and isinstance(parts[-1], pig.FieldType) else None
    return pig.FieldType("bag", inside, at=at)


def _map_type(at: int, *parts: Any) -> pig.FieldType:
    return pig.FieldType("map", tuple(pig.Field("value", one) for one in _given(parts)) or None, at=at)


def _socket_read(at: int, alias: str, path: str, _mode: Any, storage: Any, fields: Any = None) -> pig.Load:
    return pig.Load(alias, path, storage, fields, is_socket=True, at=at)


def _socket_write(at: int, source: str, path: str, _mode: Any, storage: Any) -> pig.Store:
    return pig.Store(source, path, storage, is_socket=True, at=at)


def _keyed(at: int, source: str, key: Any = None, how: Any = None, _outer: Any = None) -> pig.Keyed:
    several = isinstance(key, pig.Build) and key.kind == "tuple"
    keys = None if key is None else key.elements if several else (key,)
    return pig.Keyed(source, keys, _lower(how), at=at)


def _combined(kind: Callable[..., Any]) -> Maker:
    return lambda at, alias, *parts: kind(alias, tuple(p for p in parts if isinstance(p, pig.Keyed)), at=at)


def _aliases(parts: tuple[Any, ...], at: int) -> tuple[pig.Name, ...]:
    return tuple(pig.Name(one, at=at) for one in parts if type(one) is str)


def _macro(at: int, name: Token, parameters: tuple[str, ...], results: tuple[str, ...]) -> pig.Macro:
    is_void = tuple(map(str.lower, results)) == ("void",)
    return pig.Macro(str(name), parameters, () if is_void else results, at=at)


def _call_macro(at: int, *parts: Any) -> pig.CallMacro:
    *aliases, name, arguments = parts
    return pig.CallMacro(tuple(aliases), str(name), arguments, at=at)


def _setting(at: int, name: str, value: Any = None) -> pig.Setting:
    known = value.value if isinstance(value, pig.Literal) else value and str(value)
    return pig.Setting(name, known, at=at)


MAKERS: dict[str, Maker] = {
    # leaves
    "alias": lambda _at, name: str(name),
    "text": lambda _at, quoted: unquoted(quoted),
    "name": lambda at, text: pig.Name(str(text), at=at),
    "position": lambda at, text: pig.Position(int(text[1:]), at=at),
    "parameter": lambda at, text: pig.Parameter(text.strip("${}"), at=at),
    "star": lambda at, _text: pig.Star(at=at),
    "literal": _literal,
    # expressions
    "range": _node(pig.FieldRange),
    "dot": lambda at, base, *fields: pig.Dot(base, fields, at=at),
    "dots": lambda at, base, *fields: pig.Dot(base, fields, at=at),
    "lookup": _node(pig.Lookup),
    "call": _call,
    "cast": lambda at, name, operand: pig.Cast(name.lower(), operand, at=at),
    "add": _binary,
    "multiply": _binary,
    "compare": _binary,
    "or_": _operation("or"),
    "and_": _operation("and"),
    "not_": _operation("not"),
    "matches": _operation("matches"),
    "in_list": _operation("in"),
    "not_in_list": _denied("in"),
    "is_null": _operation("is null"),
    "is_not_null": _denied("is null"),
    "negative": _negative,
    "choice": _operation("if"),
    "when": _tuple,
    "case": _case,
    "tuple_of": _build("tuple"),
    "bag_of": _build("bag"),
    "map_of": _build("map"),
    # schemas
    "field": lambda at, name, type_=None: pig.Field(str(name), type_, at=at),
    "fields": _tuple,
    "simple_type": lambda at, name: pig.FieldType(name.lower(), at=at),
    "tuple_type": lambda at, *fields: pig.FieldType("tuple", _given(fields) or None, at=at),
    "bag_type": _bag_type,
    "map_type": _map_type,
    # statements
    "using": lambda at, name, *arguments: pig.Storage(str(name), _given(arguments), at=at),
    "load": _node(pig.Load),
    "socket_read": _socket_read,
    "store": _node(pig.Store),
    "socket_write": _socket_write,
    "dump": _show("dump"),
    "describe": _show("describe"),
    "explain": _show("explain"),
    "illustrate": _show("illustrate"),
    "filter": _node(pig.Filter),
    "foreach": _node(pig.Foreach),
    "foreach_block": lambda at, alias, source, block, items: pig.Foreach(alias, source, items, block, at=at),
    "accumulate": _node(pig.Accumulate),
    "items": _tuple,
    "block": _tuple,
    "item": _node(pig.Item),
    "nested_value": _node(pig.Assign),
    "nested_filter": _node(pig.Filter),
    "nested_distinct": _node(pig.Distinct),
    "nested_order": _node(pig.Order),
    "nested_limit": _node(pig.Limit),
    "grouped": _keyed,
    "grouped_all": _keyed,
    "group": _combined(pig.Group),
    "joined": _keyed,
    "join": _combined(pig.Join),
    "cross": lambda at, alias, *sources: pig.Cross(alias, _aliases(sources, at), at=at),
    "union": lambda at, alias, by_name, *more: pig.Union(
        alias, _aliases(more, at), by_name is not None, at=at
    ),
    "distinct": lambda at, alias, source, *_engine: pig.Distinct(alias, source, at=at),
    "order": lambda at, alias, source, keys, *_engine: pig.Order(alias, source, keys, at=at),
    "order_keys": _tuple,
    "order_key": lambda at, value, way: pig.OrderKey(value, _lower(way) == "desc", at=at),
    "limit": _node(pig.Limit),
    "split": lambda at, source, *branches: pig.Split(source, branches, at=at),
    "branch": lambda at, alias, condition=None: pig.Branch(alias, condition, at=at),
    "sample": _node(pig.Sample),
    "extent": lambda at, kind, count, unit: pig.Extent(kind.lower(), count, _lower(unit), at=at),
    "window": _node(pig.Window),
    "names": _names,
    "macro": _macro,
    "arguments": _tuple,
    "call_macro": _call_macro,
    "call_void": _call_macro,
    "import_": _node(pig.Import),
    "setting": lambda _at, *parts: ".".join(parts),
    "set_": _setting,
    "same": lambda at, alias, source: pig.Filter(alias, source, pig.Literal(value=True), at=at),
}
"""The node that each rule of the grammar becomes; the grammar inlines rules whose names begin with an underscore."""
