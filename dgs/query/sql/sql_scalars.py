"""Expressions of SQL as scalars of the algebra: names become fields, and each function is a call of the table of functions.

>>> text = SqlText("q.sql", "select x between 1 and $most from t")
>>> lowering = Lowering(text, {"most": 3}, lambda _: column("x"))
>>> lowering.of(text.tree().expressions[0]).sql()
'"x" BETWEEN 1 AND 3'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from sqlglot import exp

from dgs.query.functions import FUNCTIONS, arguments_of, name_of
from dgs.query.scalar import Scalar, call, column, connected, literal
from dgs.query.sql.sql_dialect import no_function
from dgs.query.sql.sql_syntax import SqlText
from dgs.query.sql.sql_tables import parameter
from dgs.query.sql.sql_times import of_time

__all__ = ["AGGREGATE_NAMES", "Lowering", "column", "is_aggregate"]

AGGREGATE_NAMES: dict[str, str] = {
    "count": "count",
    "sum": "sum",
    "avg": "avg",
    "min": "min",
    "max": "max",
    "stddev": "stddev_samp",
    "stddevsamp": "stddev_samp",
    "stddevpop": "stddev_pop",
    "variance": "var_samp",
    "variancepop": "var_pop",
    "argmin": "arg_min",
    "argmax": "arg_max",
    "logicalor": "some",
    "logicaland": "all",
    "median": "median",
    "arrayagg": "collect",
    "countif": "count",
    "anyvalue": "min",
    "groupconcat": "collect",
}
"""The aggregates of the algebra by the names of sqlglot's classes. Any other aggregate is refused."""

KEPT = (
    exp.And,
    exp.Or,
    exp.Is,
    exp.Case,
    exp.If,
    exp.In,
    exp.Between,
    exp.Cast,
    exp.Struct,
    exp.Dot,
    exp.PropertyEQ,
)
"""Nodes that are scalars of the algebra if their parts are."""

FLAGS = {
    "dpipe": ("safe",),
    "concat": ("safe", "coalesce"),
    "concatws": ("safe", "coalesce"),
    "greatest": ("ignore_nulls",),
    "least": ("ignore_nulls",),
    "like": ("negate",),
    "ilike": ("negate",),
    "trim": ("position",),
    "pad": ("is_left",),
    "generateseries": ("is_end_exclusive",),
}
"""The flags of nodes, beside their parts, that are supported or change nothing, by the keys of sqlglot's classes."""

CONSTANTS = (exp.Literal, exp.Null, exp.Boolean, exp.DataType, exp.Identifier)
SIDES = {"LEADING": "ltrim", "TRAILING": "rtrim"}


def is_aggregate(node: exp.Expr) -> bool:
    """Return whether a node is an aggregate, with or without its filter."""
    if isinstance(node, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
        return is_aggregate(node.this)
    return isinstance(node, exp.AggFunc)


class Lowering:
    """Makes scalars of trees. `name`: the scalar of a column; `nested`: that of a nested query or of an aggregate, None to refuse them."""

    def __init__(
        self,
        text: SqlText,
        params: Mapping[str, Any],
        name: Callable[[exp.Column], Scalar],
        nested: Callable[[exp.Expr], Scalar | None] = lambda _: None,
    ) -> None:
        self._text, self._params, self._name, self._nested = text, params, name, nested

    def of(self, tree: exp.Expr) -> Scalar:
        """Return the scalar of a tree, each part with its place. Raises QueryError Q110, Q120, Q201, Q202, Q205, Q206."""
        found = self._nested(tree) or self._of(tree)
        if "span" not in found.meta:
            found.meta["span"] = self._text.span(tree)
        return found

    def _of(self, tree: exp.Expr) -> Scalar:
        if isinstance(tree, (exp.Paren, exp.Alias)):
            return self.of(tree.this)
        if isinstance(tree, (exp.Select, exp.SetOperation, exp.Subquery)) or is_aggregate(tree):
            what = "an aggregate" if is_aggregate(tree) else "a nested query"
            remedy = "Ask it in `having`, or of a derived table." if what == "an aggregate" else ""
            raise self._text.error("Q110", tree, f"not supported: {what} here", remedy)
        if isinstance(tree, exp.Star):
            raise self._text.error("Q101", tree, "`*` stands only in a `select`, and in `count(*)`")
        leaf = self._leaf(tree) or of_time(tree, self.of, self._text)
        if leaf is not None:
            return leaf
        self._refuse_unread(tree)
        return self._with_parts(tree) if isinstance(tree, KEPT) else self._call(tree)

    def _refuse_unread(self, tree: exp.Expr) -> None:
        """Refuse a node with an unsupported flag, which changes its meaning."""
        for name, value in tree.args.items():
            is_part = isinstance(value, (exp.Expr, list)) or name == "this"
            if value and not is_part and name not in FLAGS.get(tree.key, ()):
                raise self._text.error(
                    "Q110", tree, f"not supported: `{self._text.word(tree)}` with `{name}`"
                )

    def _leaf(self, tree: exp.Expr) -> Scalar | None:
        """Return a column, a parameter or a constant; None for anything else."""
        if isinstance(tree, exp.Column):
            return self._name(tree)
        if isinstance(tree, (exp.Placeholder, exp.Parameter)):
            return self._parameter(tree)
        is_negative = (
            isinstance(tree, exp.Neg) and isinstance(tree.this, exp.Literal) and not tree.this.is_string
        )
        if is_negative and tree.this.this == str(2**63):
            return literal(-(2**63))
        return cast("Scalar", tree.copy()) if isinstance(tree, CONSTANTS) or is_negative else None

    def _with_parts(self, tree: exp.Expr) -> Scalar:
        if isinstance(tree, exp.Connector):
            return connected(type(tree), [self.of(one) for one in tree.flatten(unnest=False)])
        if isinstance(tree, exp.In) and isinstance(tree.args.get("field"), (exp.Placeholder, exp.Parameter)):
            return self._in_parameter(tree)
        if isinstance(tree, exp.In) and tree.args.get("unnest"):
            raise self._text.error("Q110", tree, "not supported: `in` over a list", "Use `list_contains`.")
        if isinstance(tree, exp.Cast):
            return self._cast(tree)
        if isinstance(tree, exp.Is):
            return self._is(tree)
        found = tree.copy()
        for name, value in tree.args.items():
            if isinstance(value, list):
                found.set(name, [self._part(tree, name, one) for one in value])
            elif isinstance(value, exp.Expr):
                found.set(name, self._part(tree, name, value))
        return cast("Scalar", found)

    def _cast(self, tree: exp.Cast) -> Scalar:
        """Return a cast. A decimal is a float, rounded to its number of digits: 3 by default, as in DuckDB."""
        wanted = tree.args["to"]
        found = exp.Cast(this=self.of(tree.this), to=wanted.copy())
        if wanted.this.name != "DECIMAL":
            return found
        digits = [one.this.name for one in wanted.expressions]
        scale = "3" if not digits else digits[1] if len(digits) > 1 else "0"
        return call("as_decimal", found, literal(int(scale)))

    def _part(self, tree: exp.Expr, name: str, part: Any) -> Any:
        if not isinstance(part, exp.Expr):
            return part
        is_name = (isinstance(tree, exp.Dot) and name == "expression") or (
            isinstance(tree, exp.PropertyEQ) and name == "this"
        )
        return part.copy() if is_name else self.of(part)

    def _in_parameter(self, tree: exp.In) -> Scalar:
        """Return `x in $list`."""
        items = self.of(tree.args["field"])
        if not isinstance(items, exp.Array):
            problem = f"the parameter {tree.args['field'].name!r} is no list"
            raise self._text.error("Q120", tree.args["field"], problem, "Give several values: `[1, 2]`.")
        return exp.In(this=self.of(tree.this), expressions=items.expressions)

    def _is(self, tree: exp.Is) -> Scalar:
        if isinstance(tree.expression, (exp.Null, exp.Boolean)):
            return exp.Is(this=self.of(tree.this), expression=tree.expression.copy())
        return call("same_value", self.of(tree.this), self.of(tree.expression))

    def _call(self, tree: exp.Expr) -> Scalar:
        """Return the call of a node's function."""
        if isinstance(tree, (exp.Like, exp.ILike)):
            return self._like(tree, self.of(tree.expression))
        if isinstance(tree, exp.Tuple):
            problem = "not supported: a row of values here"
            remedy = "Compare values one by one, with `and` and `or`. Count rows of a derived table: `select distinct a, b`."
            raise self._text.error("Q110", tree, problem, remedy if tree.expressions else "Leave `()` out.")
        if isinstance(tree, exp.Bracket):
            return call("list_extract", self.of(tree.this), self._position(tree))
        if isinstance(tree, exp.GenerateSeries) and not tree.args.get("step"):
            return self._counted(tree)
        if isinstance(tree, exp.Log):
            return self._logarithm(tree)
        if isinstance(tree, exp.Escape):
            return self._escaped(tree)
        name = name_of(cast("Scalar", tree))
        if isinstance(tree, exp.Trim):
            name = SIDES.get(str(tree.args.get("position")), "trim") + ("_of" if tree.expression else "")
        if isinstance(tree, exp.Pad):
            name = "lpad" if tree.args.get("is_left") else "rpad"
        if name not in FUNCTIONS:
            raise self._unknown(tree, name)
        return call(name, *map(self.of, arguments_of(cast("Scalar", tree))))

    def _like(self, tree: exp.Like | exp.ILike, pattern: Scalar, *escape: Scalar) -> Scalar:
        text = self.of(tree.this)
        if isinstance(tree, exp.ILike):
            text, pattern = call("lower", text), call("lower", pattern)
        found = call("like_escape" if escape else "like", text, pattern, *escape)
        return call("not", found) if tree.args.get("negate") else found

    def _escaped(self, tree: exp.Escape) -> Scalar:
        """Return `like` with an escape, in the form common to all engines: only `%` and `_` are escaped."""
        like, pattern, escape = tree.this, tree.this.expression, tree.expression
        if not (pattern.is_string and escape.is_string and len(escape.this) <= 1):
            remedy = "Write the pattern as a text, and the escape as a text of one letter."
            raise self._text.error("Q110", tree, "not supported: `escape` of anything but texts", remedy)
        found = re.findall(f"{re.escape(escape.this)}.?|." if escape.this else ".", pattern.this, re.DOTALL)
        if escape.this and escape.this in found:
            raise self._text.error(
                "Q101", tree, "the pattern ends in its escape", "Write it twice, or leave it out."
            )
        mark = next(one for one in "!~^\x01" if one not in {piece[-1] for piece in found})
        pieces = [mark + one[-1] if len(one) > 1 and one[-1] in "%_" else one[-1] for one in found]
        return self._like(like, literal("".join(pieces)), literal(mark))

    def _counted(self, tree: exp.GenerateSeries) -> Scalar:
        """Return `range(n)`, `range(a, b)` or `generate_series(a, b)`."""
        start, end = self.of(tree.args["start"]), self.of(tree.args["end"])
        if not tree.args.get("is_end_exclusive"):
            return call("generate_series", start, end)
        if start == literal(0):
            return call("range", end)
        return call("generate_series", start, call("sub", end, literal(1)))

    def _logarithm(self, tree: exp.Log) -> Scalar:
        if not tree.expression:
            return call("log10", self.of(tree.this))
        base, value = self.of(tree.this), self.of(tree.expression)
        if base in (literal(2), literal(10)):
            return call(f"log{base.this}", value)
        return call("div", call("log10", value), call("log10", base))

    def _position(self, tree: exp.Bracket) -> Scalar:
        if len(tree.expressions) != 1 or isinstance(tree.expressions[0], exp.Slice):
            raise self._text.error(
                "Q110", tree, "not supported: a part of a list", "Name one item: `list[1]`."
            )
        (place,) = tree.expressions
        found = self.of(place)
        is_number = isinstance(found, exp.Literal) and not found.is_string
        # sqlglot counts from 0
        return literal(int(found.this) + 1) if is_number else call("add", found, literal(1))

    def _unknown(self, tree: exp.Expr, name: str) -> Exception:
        if isinstance(tree, exp.Interval):
            return self._text.error(
                "Q110",
                tree,
                "not supported: an interval here",
                "Add it to a time, or take it from one; give `tumble` and `hop` a text, such as '1 hour'.",
            )
        written = (
            name
            if isinstance(tree, exp.Anonymous)
            else (self._text.word(tree).lower() if isinstance(tree, exp.Func) else name)
        )
        return self._text.error("Q205", tree, *no_function(written), name=written)

    def _parameter(self, tree: exp.Expr) -> Scalar:
        value = parameter(tree, self._text, self._params)
        if isinstance(value, (list, tuple)):
            return exp.Array(expressions=[literal(one) for one in value])
        return literal(value)
