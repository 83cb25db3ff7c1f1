"""Functions whose text for Spark is not in the table of functions."""

ONLY_HERE = {
    "div": "(CASE WHEN {1} <> 0 THEN CAST({0} AS DOUBLE) / CAST({1} AS DOUBLE) WHEN {0} IS NULL OR {1} IS NULL THEN NULL"
    " WHEN {0} > 0 AND NOT isnan({0}) THEN CAST('inf' AS DOUBLE) WHEN {0} < 0 THEN CAST('-inf' AS DOUBLE) ELSE CAST('nan' AS DOUBLE) END)",
    "list_sum": "(CASE WHEN size(filter({0}, x -> x IS NOT NULL)) > 0 THEN aggregate(filter({0}, x -> x IS NOT NULL), {zero}, (a, x) -> a + x) END)",
    "list_avg": "(CASE WHEN size(filter({0}, x -> x IS NOT NULL)) > 0 THEN aggregate(filter({0}, x -> x IS NOT NULL), CAST(0 AS DOUBLE), (a, x) -> a + x)"
    " / size(filter({0}, x -> x IS NOT NULL)) END)",
}
"""Functions whose text needs more than that of the table: division by 0 is an error in Spark, and it has no sums of arrays."""

_FIRST = "(CASE WHEN {1} < 0 THEN length({0}) + {1} ELSE {1} - 1 END)"
_BEFORE, _TO = (
    f"least(greatest({chosen}({_FIRST}, {_FIRST} + {{2}}), 0), length({{0}}))"
    for chosen in ("least", "greatest")
)
_NEAREST = (  # the rounding error of t = a * m decides if t is exactly between two integers
    "aggregate(array(struct(abs({0}) AS a, power(10.0D, abs({1})) AS m)), CAST(NULL AS DOUBLE), (_, v) -> aggregate(array(struct("
    "if({1} < 0, v.a / v.m, v.a * v.m) AS t, v.a * 134217729 - (v.a * 134217729 - v.a) AS a, v.m * 134217729 - (v.m * 134217729 - v.m) AS m)),"
    " CAST(NULL AS DOUBLE), (_, h) -> (CASE WHEN h.t >= 4503599627370496D THEN v.a WHEN {1} < 0 THEN"
    " (floor(h.t) + if(v.a >= (floor(h.t) + 0.5D) * v.m, 1, 0)) * v.m ELSE (floor(h.t) + if(h.t - floor(h.t) > 0.5D OR h.t - floor(h.t) = 0.5D"
    " AND h.a * h.m - h.t + h.a * (v.m - h.m) + (v.a - h.a) * h.m + (v.a - h.a) * (v.m - h.m) >= 0, 1, 0)) / v.m END)))"
)

_WHOLE = (
    "(CASE WHEN {1} >= 0 OR {0} IS NULL THEN {0} WHEN {1} < -18 THEN 0 WHEN {1} < 0 THEN ({0} DIV CAST(power(10, -{1}) AS BIGINT)"
    " + if(abs({0} % CAST(power(10, -{1}) AS BIGINT)) >= 5 * CAST(power(10, -1 - {1}) AS BIGINT), CAST(sign({0}) AS INT), 0))"
    " * CAST(power(10, -{1}) AS BIGINT) END)"
)

OF_KIND = {
    ("array_size", "text"): "length({0})",
    ("length", "text"): "length({0})",
    ("mod", "float64"): "(CASE WHEN {1} = 0 AND {0} IS NOT NULL THEN double('nan') ELSE {0} % {1} END)",
    ("round", "float64", 2): "(CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL"
    " WHEN {1} < -300 THEN if(abs({0}) < double('inf'), 0.0D, {0}) WHEN {1} > 300 OR {0} = 0 THEN {0}"
    f" WHEN {{0}} < 0 THEN -{_NEAREST} ELSE {_NEAREST} END)",
    ("round", "", 2): _WHOLE,
    ("substring", "text", 3): "(CASE WHEN {1} IS NOT NULL AND {2} IS NOT NULL"
    f" THEN substring({{0}}, {_BEFORE} + 1, {_TO} - {_BEFORE}) END)",
}
"""Functions with another text for arguments of this kind, or for this number of arguments."""

OF_ITEMS = {"count": "list_count", "sum": "list_sum", "avg": "list_avg", "min": "list_min", "max": "list_max"}
"""Aggregates of a bag's items, with the array functions for them."""

FUNCTIONS = {
    "list_count": "size(filter({0}, x -> x IS NOT NULL))",
    "list_min": "array_min({0})",
    "list_max": "array_max({0})",
}
"""Array functions, in addition to those of `ONLY_HERE`."""
