"""SQL that is known and not supported: each construct is refused by name as Q110, with what to write instead.

>>> import sqlglot
>>> tree = sqlglot.parse_one("select sum(x) over () from t", dialect="duckdb")
>>> [refusal.name for _, refusal in refused(tree)]
['window functions (`over`)']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlglot import exp


@dataclass(frozen=True)
class Refusal:
    """A construct that is refused. `word`: the word of the text to point at. `instead`: what to write."""

    name: str
    word: str
    instead: str = ""


REFUSED: dict[type[exp.Expr], Refusal] = {
    exp.Window: Refusal("window functions (`over`)", "over", "Group by what you partition by, and join."),
    exp.Qualify: Refusal("`qualify`", "qualify", "Use a derived table and `where`."),
    exp.GroupingSets: Refusal(
        "grouping sets", "grouping", "Write one query for each grouping, and `union all`."
    ),
    exp.Rollup: Refusal("`rollup`", "rollup", "Write one query for each grouping, and `union all`."),
    exp.Cube: Refusal("`cube`", "cube", "Write one query for each grouping, and `union all`."),
    exp.Lateral: Refusal("`lateral`", "lateral", "Use a correlated subquery, or a join."),
    exp.TableSample: Refusal("sampling (`tablesample`)", "tablesample|using|sample"),
    exp.Pivot: Refusal("`pivot`", "pivot|unpivot", "Use `filter (where ...)`."),
    exp.Any: Refusal("a comparison with `any`", "any|some", "Use `in` or `exists`."),
    exp.All: Refusal("a comparison with `all`", "all", "Use `not exists`."),
    exp.Lambda: Refusal("a lambda", "lambda|->", "Use `unnest`, and group again."),
    exp.TryCast: Refusal("`try_cast`", "try_cast", "Use `cast` within a `case` that asks what it needs."),
    **dict.fromkeys(
        (exp.RegexpLike, exp.RegexpFullMatch, exp.RegexpReplace, exp.RegexpExtract, exp.SimilarTo, exp.Glob),
        Refusal(
            "regular expressions",
            r"regexp\w*|similar|glob|rlike|~",
            "Use `like`, `starts_with`, `contains`, `replace` or `split_part`.",
        ),
    ),
    **dict.fromkeys(
        (exp.BitwiseLeftShift, exp.BitwiseRightShift),
        Refusal("`<<` and `>>`", "<<|>>", "Multiply or divide by a power of 2: `x * 8`, `x // 8`."),
    ),
    exp.BitwiseNot: Refusal("`~`", "~", "Write `-1 - x`."),
    exp.WithinGroup: Refusal("`within group`", "within", "Use `median`, or an item of `list(x)`."),
    exp.Values: Refusal("`values`", "values", "Put the rows into a file, and read it as a table."),
}
STATEMENTS: dict[type[exp.Expr], str] = {
    exp.Insert: "insert",
    exp.Delete: "delete",
    exp.Update: "update",
    exp.Merge: "merge",
    exp.Create: "create",
    exp.Drop: "drop",
    exp.Alter: "alter",
    exp.Copy: "copy",
    exp.Attach: "attach",
    exp.Pragma: "pragma",
    exp.Set: "set",
    exp.Use: "use",
    exp.Describe: "describe",
    exp.Summarize: "summarize",
    exp.Command: "[a-z]+",
}
INSTEAD: dict[str, str] = {
    **dict.fromkeys(("first", "last"), "Rows have no order: use `arg_min(x, ts)` or `arg_max(x, ts)`."),
    **dict.fromkeys(
        ("quantile", "quantile_cont", "quantile_disc", "percentile_cont"),
        "Use `median`, or an item of `list(x)`, whose values are in order.",
    ),
    **dict.fromkeys(
        ("corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept"),
        "Put it together: `avg(x * y) - avg(x) * avg(y)` is the covariance.",
    ),
    **dict.fromkeys(("approx_count_distinct", "approx_distinct"), "Use `count(distinct x)`."),
    "mode": "Group by the value too, and order by `count(*)`.",
    "product": "Of positive numbers it is `exp(sum(ln(x)))`.",
    **dict.fromkeys(("regexp_matches", "rlike"), "Use `like`, `starts_with`, `contains` or `split_part`."),
    **dict.fromkeys(("format", "printf"), "Join texts: `a || cast(x as text)`."),
    **dict.fromkeys(
        ("strptime", "make_date", "make_timestamp", "to_date"),
        "Cast a text: `cast(year || '-' || month || '-01' as timestamp)`.",
    ),
    "to_timestamp": "Write `timestamp '1970-01-01' + interval (x) seconds`.",
    **dict.fromkeys(
        [f"to_{unit}" for unit in ("years", "months", "weeks", "days", "hours", "minutes", "seconds")],
        "Write an interval: `t + interval (x) days`.",
    ),
    **dict.fromkeys(("age", "date_sub", "datesub"), "Use `date_diff('day', a, b)`."),
    "time_bucket": "Use `date_trunc('hour', t)`, or `tumble(ms, '1 hour')` with `epoch_ms(t) ms` in a derived table.",
    **dict.fromkeys(("to_char", "date_format"), "Use `strftime(t, '%Y-%m-%d')`."),
    **dict.fromkeys(("list_append", "list_prepend"), "Use `list_concat(a, [x])`."),
    **dict.fromkeys(
        ("list_sort", "list_reverse", "list_filter", "list_transform"), "Use `unnest`, and group again."
    ),
    "array_to_string": "Use `unnest`, and `string_agg(x, ',')`.",
    "translate": "Use `replace` for each letter.",
    "initcap": "Write `upper(left(s, 1)) || lower(substring(s, 2))`.",
    **dict.fromkeys(("sinh", "cosh", "tanh"), "Write it with `exp`: `(exp(x) - exp(-x)) / 2`."),
    **dict.fromkeys(("nvl", "isnull"), "Use `coalesce(x, y)`."),
    **dict.fromkeys(("iif", "decode", "nvl2"), "Use `case when ... then ... else ... end`."),
    "charindex": "Use `strpos(s, 'a')`.",
    **dict.fromkeys(("all", "some"), "Use `list_min`, `list_max` or `exists`."),
    **dict.fromkeys(("multiply", "subtract"), "Write `a * b`, `a - b`."),
    "divide": "Write `a // b`, or `a / b` for a float.",
    **dict.fromkeys(("random", "uuid"), "An answer is the same each time: take a column of the rows."),
}
"""What to write in place of functions and aggregates that do not exist."""
RECURSIVE = Refusal("`with recursive`", "recursive", "Use `repeat` of MRQL.")
DISTINCT_ON = Refusal("`distinct on`", "on", "Use `group by` with `arg_min` or `arg_max`.")
NATURAL = Refusal("a natural join", "natural", "Say `using (...)`.")
SIDEWAYS = Refusal(
    "this kind of join",
    "asof|positional|semi|anti",
    "Use `exists` or `not exists`, or a join with equalities.",
)
PERCENT = Refusal("`limit` of a percentage", "limit", "Give a number of rows.")
TIES = Refusal("`limit ... with ties`", "limit", "Give a number of rows.")
DIGITS = Refusal("`trunc` to a number of digits", "trunc", "Write `trunc(x * 100) / 100`.")
RENAME = Refusal("`* rename`", "rename", "Name the columns.")

READ: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Select: (
        "with_", "expressions", "distinct", "from_", "joins", "where", "group", "having", "order", "limit", "offset",
    ),
    **dict.fromkeys(
        (exp.Union, exp.Intersect, exp.Except),
        ("with_", "this", "expression", "distinct", "by_name", "order", "limit", "offset"),
    ),
    exp.Subquery: ("with_", "this", "alias", "joins", "order", "limit", "offset"),
    exp.Table: ("this", "db", "alias", "joins", "sample", "pivots"),
    exp.Join: ("this", "on", "side", "kind", "using", "method"),
    exp.Group: ("expressions", "all", "grouping_sets", "rollup", "cube"),
    exp.Ordered: ("this", "desc", "nulls_first"),
    exp.Limit: ("this", "expression", "limit_options"),
    exp.Fetch: ("count", "direction", "limit_options"),
    exp.In: ("this", "expressions", "query", "unnest", "field"),
    exp.Between: ("this", "low", "high"),
    exp.Cast: ("this", "to"),
    exp.Column: ("this", "table"),
}  # fmt: skip
"""The parts of nodes that we support, by the names of sqlglot. A node with any other part is refused."""

SPOKEN = {"locks": "for", "windows": "window", "operation_modifiers": "select", "system_time": "for"}
"""The words in the text for parts with other names in sqlglot."""

_WHERE: tuple[tuple[Callable[[exp.Expr], bool], Refusal], ...] = (
    (lambda node: isinstance(node, exp.With) and bool(node.args.get("recursive")), RECURSIVE),
    (lambda node: isinstance(node, exp.Distinct) and bool(node.args.get("on")), DISTINCT_ON),
    (lambda node: isinstance(node, exp.Join) and node.args.get("method") == "NATURAL", NATURAL),
    (
        lambda node: (
            isinstance(node, exp.Join)
            and (bool(node.args.get("method")) or node.args.get("kind") in ("SEMI", "ANTI", "STRAIGHT"))
        ),
        SIDEWAYS,
    ),
    (lambda node: isinstance(node, exp.LimitOptions) and bool(node.args.get("percent")), PERCENT),
    (lambda node: isinstance(node, exp.LimitOptions) and bool(node.args.get("with_ties")), TIES),
    (lambda node: isinstance(node, exp.Trunc) and bool(node.args.get("decimals")), DIGITS),
    (lambda node: isinstance(node, exp.Star) and bool(node.args.get("rename")), RENAME),
)


def statement(tree: exp.Expr) -> str | None:
    """Return the word of a statement that is not a query, None for a query."""
    return next((word for kind, word in STATEMENTS.items() if isinstance(tree, kind)), None)


def refused(tree: exp.Expr) -> Iterator[tuple[exp.Expr, Refusal]]:
    """Yield the parts of a tree that are refused, with why."""
    for node in tree.walk():
        found = REFUSED.get(type(node)) or next((refusal for holds, refusal in _WHERE if holds(node)), None)
        if found is not None:
            yield node, found
        read = READ.get(type(node))
        for name in [one for one, part in node.args.items() if part and read and one not in read]:
            word = SPOKEN.get(name, name.strip("_"))
            yield node, Refusal(f"`{word}` in a `{node.key}`", word)
