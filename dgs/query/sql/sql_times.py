"""Times in SQL: adding intervals, truncation to a unit, parts of a time, and dates, which are the times at which they begin.

>>> text = SqlText("q.sql", "select date_trunc('day', t) + interval '1 day 2 hours' from r")
>>> of_time(text.tree().expressions[0], lambda one: one, text).sql()
'ADD_MICROS(TIMESTAMP_TRUNC(t, DAY), 93600000000)'
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from dgs.query.functions import ALIASES, FUNCTIONS
from dgs.query.meanings.time_meanings import MONTHS, PARTS_OF_TIME
from dgs.query.scalar import Scalar, call, literal
from dgs.query.sql.sql_syntax import SqlText

Lower = Callable[[exp.Expr], Scalar]
PARTS = ("year", "month", "day", "hour", "minute", "second", "epoch", *PARTS_OF_TIME)
FORMATS = {
    "%Y": ("year", 4), "%m": ("month", 2), "%d": ("day", 2), "%H": ("hour", 2), "%M": ("minute", 2), "%S": ("second", 2),
    "%j": ("dayofyear", 3),
}  # fmt: skip
"""The parts of a time in a text, with their digits."""
NAMES: dict[type[exp.Expr], tuple[str, list[str]]] = {
    exp.Dayname: ("isodow", ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]),
    exp.Monthname: (
        "month",
        [
            "January",
            "February",
            "March",
            "April",
            "May",
            "June",
            "July",
            "August",
            "September",
            "October",
            "November",
            "December",
        ],
    ),
}
MICROS = {
    "microsecond": 1, "millisecond": 1000, "second": 10**6, "minute": 60 * 10**6, "hour": 3600 * 10**6,
    "day": 86400 * 10**6, "week": 7 * 86400 * 10**6,
}  # fmt: skip


def of_time(tree: exp.Expr, lower: Lower, text: SqlText) -> Scalar | None:
    """Return the scalar of an expression of times alone; None for anything else. Raises QueryError Q110."""
    maker = _MAKERS.get(type(tree))
    return None if maker is None else maker(tree, lower, text)


def _moved(tree: exp.Expr, lower: Lower, text: SqlText) -> Scalar | None:
    """Return a time plus or minus an interval."""
    left, right = tree.this, tree.expression
    if isinstance(left, exp.Interval) and isinstance(tree, exp.Add):
        left, right = right, left
    if not isinstance(right, exp.Interval):
        return None
    sign = -1 if isinstance(tree, (exp.Sub, exp.DateSub)) else 1
    found = lower(left)
    for function, amount in _amounts(right, sign, lower, text):
        found = call(function, found, amount)
    return found


def _amounts(tree: exp.Interval, sign: int, lower: Lower, text: SqlText) -> list[tuple[str, Scalar]]:
    """Return the months and microseconds of an interval."""
    unit = tree.args.get("unit")
    if isinstance(tree.this, exp.Literal):
        written = f"{tree.this.this} {unit.name if unit is not None else ''}".strip().lower()
        parts = re.findall(r"(-?\d+)\s*([a-z]+)", written)
        if not parts or re.sub(r"(-?\d+)\s*([a-z]+)|\s", "", written):
            raise text.error(
                "Q110",
                tree,
                f"not supported: the interval {written!r}",
                "Write whole numbers of units: '90 minutes'.",
            )
        known = [(_unit(name, tree, text), int(count)) for count, name in parts]
        months = sign * sum(count * MONTHS[one] for one, count in known if one in MONTHS)
        micros = sign * sum(count * MICROS[one] for one, count in known if one in MICROS)
        both = (("add_months", months), ("add_micros", micros))
        return [(name, literal(count)) for name, count in both if count] or [("add_micros", literal(0))]
    name = _unit(unit.name.lower() if unit is not None else "", tree, text)
    each = sign * (MONTHS.get(name) or MICROS[name])
    return [("add_months" if name in MONTHS else "add_micros", call("mul", lower(tree.this), literal(each)))]


def _unit(name: str, at: exp.Expr, text: SqlText) -> str:
    found = name.removesuffix("s")
    if found not in MONTHS and found not in MICROS:
        raise text.error(
            "Q110",
            at,
            f"not supported: an interval of {name!r}",
            f"There are {', '.join((*MONTHS, *MICROS))}.",
        )
    return found


def _trunc(tree: exp.Expr, lower: Lower, text: SqlText) -> Scalar:
    return call(_known("trunc", tree.args["unit"], tree, text), lower(tree.this))


def _diff(tree: exp.Expr, lower: Lower, text: SqlText) -> Scalar:
    return call(_known("diff", tree.args["unit"], tree, text), lower(tree.expression), lower(tree.this))


def _known(function: str, unit: exp.Expr, tree: exp.Expr, text: SqlText) -> str:
    name = f"{function}_{unit.name.lower()}"
    if name not in FUNCTIONS:
        units = [one.removeprefix(f"{function}_") for one in FUNCTIONS if one.startswith(f"{function}_")]
        problem = f"not supported: `date_{function}` of {unit.name.lower()!r}"
        raise text.error("Q110", tree, problem, f"There are {', '.join(units)}.")
    return name


def _extract(tree: exp.Expr, lower: Lower, text: SqlText) -> Scalar:
    return _part(tree.this.name, tree.expression, tree, lower, text)


def _part(name: str, of: exp.Expr, tree: exp.Expr, lower: Lower, text: SqlText) -> Scalar:
    part = ALIASES.get(name.lower(), name.lower())
    if part not in PARTS:
        raise text.error(
            "Q110", tree, f"not supported: `extract` of {part}", f"There are {', '.join(PARTS)}."
        )
    return call(part, lower(of))


def _formatted(tree: exp.Expr, lower: Lower, text: SqlText) -> Scalar:
    """Return the text of a time: the parts that a format names, padded with zeros, and the text between them."""
    written = tree.args["format"]
    pieces = re.findall(r"%.?|[^%]+", written.this) if written.is_string else []
    unknown = [one for one in pieces if one[0] == "%" and one != "%%" and one not in FORMATS]
    if unknown or not FORMATS.keys() & set(pieces):
        problem = f"not supported: `strftime` with {unknown[0] if unknown else 'a format that names no part of the time'}"
        raise text.error("Q110", tree, problem, f"There are {', '.join(FORMATS)}, %%.")
    time = lower(tree.this)
    found = call("left", _text(call("year", time)), literal(0))  # empty, but null if the time is
    for one in pieces:
        part, digits = FORMATS.get(one, ("", 0))
        padded = part and call("concat_strict", literal("0" * digits), _text(call(part, time)))
        piece = call("right", padded, literal(digits)) if padded else literal(one.replace("%%", "%"))
        found = call("concat_strict", found, piece)
    return found


def _text(of: Scalar) -> Scalar:
    return exp.Cast(this=of, to=exp.DataType.build("text"))


def _date(tree: exp.Expr, lower: Lower, text: SqlText) -> Scalar | None:  # noqa: ARG001 - as all makers
    """Return a cast to a date: the beginning of the day."""
    if tree.args["to"].this.name != "DATE":
        return None
    return call("trunc_day", exp.Cast(this=lower(tree.this), to=exp.DataType.build("timestamp")))


def _asking(tree: exp.Expr, lower: Lower, text: SqlText) -> Scalar:  # noqa: ARG001
    remedy = "Give it as a parameter: `$now`, with `-p now=...`, as `cast($now as timestamp)`."
    raise text.error("Q110", tree, "not supported: the time at which the query is asked", remedy)


def _last_day(tree: exp.Expr, lower: Lower, text: SqlText) -> Scalar:  # noqa: ARG001
    after = call("add_months", call("trunc_month", lower(tree.this)), literal(1))
    return call("add_micros", after, literal(-MICROS["day"]))


def _named(tree: exp.Expr, lower: Lower, text: SqlText) -> Scalar:  # noqa: ARG001
    part, names = NAMES[type(tree)]
    return call("list_extract", call("array", *map(literal, names)), call(part, lower(tree.this)))


def _millis(tree: exp.Expr, lower: Lower, text: SqlText) -> Scalar | None:  # noqa: ARG001
    is_millis = tree.args.get("scale") == exp.Literal.number(3)
    return call("epoch_ms", lower(tree.this)) if is_millis else None


def _by_name(tree: exp.Expr, lower: Lower, text: SqlText) -> Scalar | None:
    name, given = tree.name.lower(), tree.expressions
    if name in ("now", "today") and not given:
        return _asking(tree, lower, text)
    if name in ("date_part", "datepart") and len(given) == 2 and given[0].is_string:  # noqa: PLR2004 - the part, and the time
        return _part(given[0].name, given[1], tree, lower, text)
    return None


_MAKERS: dict[type[exp.Expr], Callable[[exp.Expr, Lower, SqlText], Scalar | None]] = {
    **dict.fromkeys((exp.Add, exp.Sub, exp.DateAdd, exp.DateSub), _moved),
    **dict.fromkeys((exp.TimestampTrunc, exp.DateTrunc), _trunc),
    **dict.fromkeys((exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime), _asking),
    exp.DateDiff: _diff,
    exp.TimeToStr: _formatted,
    exp.Extract: _extract,
    exp.LastDay: _last_day,
    exp.UnixToTime: _millis,
    **dict.fromkeys(NAMES, _named),
    exp.Cast: _date,
    exp.Anonymous: _by_name,
}
