"""The 43 MRQL cases of upstream: our text of each, its inputs, and the comparison with the expected answer.

The expected answers were computed by plain loops (shared/cases/upstream/README.md); upstream's queries themselves are not kept.
"""

import csv
import json
from pathlib import Path

from dgs.query.evaluate import ZBag, rows_of, zbag
from dgs.query.mrql.mrql_parser import QueryText
from dgs.query.mrql.mrql_readers import readings
from dgs.query.types import Schema

FOLDER = Path(__file__).parents[5] / "shared" / "cases" / "upstream" / "mrql"

ORDERS = 'o = source(line, "orders.tbl", "|", type(<ORDERKEY: int, CUSTKEY: int, PRIORITY: string, TOTALPRICE: float>));'
CUSTOMERS = 'c = source(line, "customer.tbl", "|", type(<CUSTKEY: int, NAME: string, ADDRESS: string>));'
EMPLOYEES = 'E = source(line, "employee.txt", ",", type(<name: string, dno: int, address: string>));'
DEPARTMENTS = 'D = source(line, "department.txt", ",", type(<name: string, dno: int>));'
BOTH = ORDERS + CUSTOMERS
STAFF = EMPLOYEES + DEPARTMENTS
VECTORS = "".join(f'{one} = source(line, "{one}vector.txt", ",", type((double, long)));' for one in "XY")
MATRICES = "".join(
    f'{one} = source(line, "{one}matrix.txt", ",", type((double, long, long)));' for one in "XY"
)

TEXTS = {
    "distinct_1": ORDERS + "select distinct x.CUSTKEY from x in o;",
    "group_by_1": ORDERS + "select (k, sum(x.TOTALPRICE)) from x in o group by k: x.CUSTKEY;",
    "group_by_having_1": ORDERS
    + "select (k, sum(x.TOTALPRICE)) from x in o group by k: x.CUSTKEY having sum(x.TOTALPRICE) > 10000;",
    "group_by_order_by_1": ORDERS
    + "select (k, count(x), avg(x.TOTALPRICE)) from x in o group by k: x.CUSTKEY order by count(x) desc;",
    "group_by_order_by_2": ORDERS
    + "select (k, avg(x.TOTALPRICE)) from x in o group by k: x.CUSTKEY order by count(x) desc;",
    "join_group_by_1": BOTH
    + "select (n, sum(x.TOTALPRICE)) from x in o, y in c where x.CUSTKEY = y.CUSTKEY group by n: y.NAME;",
    "join_group_by_2": BOTH
    + "select (k, sum(x.TOTALPRICE)) from x in o, y in c where x.CUSTKEY = y.CUSTKEY group by k: y.CUSTKEY;",
    "join_group_by_3": BOTH
    + """select (name, avg(x.TOTALPRICE)) from x in o, y in c where x.CUSTKEY = y.CUSTKEY
         group by (k, name): (y.CUSTKEY, y.NAME);""",
    "nested_select_1": BOTH
    + "select (y.NAME, avg(select x.TOTALPRICE from x in o where x.CUSTKEY = y.CUSTKEY)) from y in c;",
    "join_order_by_1": BOTH
    + """select <N: y.NAME, A: avg(select x.TOTALPRICE from x in o where x.CUSTKEY = y.CUSTKEY)>
         from y in c order by y.ADDRESS;""",
    "order_by_1": ORDERS + "select (x.CUSTKEY, x.TOTALPRICE) from x in o order by x.TOTALPRICE;",
    "relational_join_1": BOTH
    + "select (y.NAME, x.TOTALPRICE) from x in o, y in c where x.CUSTKEY = y.CUSTKEY;",
    "total_aggregation_1": ORDERS + "count(select x from x in o);",
    "total_aggregation_2": ORDERS + "avg(select x.TOTALPRICE from x in o);",
    "user_aggregation_1.a": EMPLOYEES + "aggregation total(+, 0); total(select e.dno from e in E);",
    "user_aggregation_1.b": EMPLOYEES
    + "aggregation total(\\(x, y) -> x + y, 0); select (d, total(e.dno)) from e in E group by d: e.dno;",
    "joins_1.1": EMPLOYEES + "select e.name from e in E where e.dno = 10;",
    "joins_1.5": STAFF + "select (e.name, d.name) from e in E, d in D where e.dno = d.dno;",
    "joins_1.6": STAFF
    + 'select (e.name, d.name) from e in E, d in D where e.dno = d.dno and e.name = "John Smith";',
    "joins_1.8": STAFF
    + 'select d.name from d in D where all e in (select e from e in E where e.dno = d.dno): e.address = "a";',
    "joins_1.10": EMPLOYEES + "select e from e in E order by e.dno desc;",
    "joins_1.12": STAFF
    + "select (e.name, d.name) from e in E, d in D where e.dno = d.dno order by e.address;",
    "joins_1.15": EMPLOYEES + "select x.name from x in (select (k, e) from e in E group by k: e.dno)[10];",
    "joins_1.18": EMPLOYEES + "select (d, count(e)) from e in E group by d: e.dno order by count(e);",
    "joins_1.19": EMPLOYEES + "all e in E: e.dno > 1;",
    "joins_1.20": EMPLOYEES + "(select e.dno from e in E) + {9, 8};",
    "joins_1.22": EMPLOYEES + "S = select e.dno from e in E; count(S + {9, 8} + S);",
    "matrix_1.1": VECTORS + "sum(select x * y from (x, i) in X, (y, j) in Y where i = j);",
    "matrix_1.2": MATRICES
    + "S = select (x + y, i, j) from (x, i, j) in X, (y, k, l) in Y where i = k and j = l; (sum(select s#0 from s in S), count(S));",
    "matrix_1.4": MATRICES + "select (sum(x), i) from (x, i, j) in X group by i: i;",
    "matrix_1.5": MATRICES
    + """macro transpose(M) { select (m, j, i) from (m, i, j) in M };
         P = select (sum(z), i, j) from (x, i, k) in X, (y, l, j) in transpose(Y), z = x * y where k = l group by (i, j): (i, j);
         (count(P), sum(select p from (p, i, j) in P where i = j), sum(select p from (p, i, j) in P));""",
    "kmeans_1": """points = source(line, "points.txt", ",", type(<X: double, Y: double>));
        function far(a, b) { (a.X - b.X) * (a.X - b.X) + (a.Y - b.Y) * (a.Y - b.Y) };
        repeat C = [<X: 0, Y: 0>, <X: 10, Y: 0>, <X: 0, Y: 10>, <X: 10, Y: 10>]
        step select <X: avg(p.X), Y: avg(p.Y)> from p in points group by k: argmin(c in C: far(p, c)) limit 2;""",
    "pagerank_1": """links = source(line, "graph.txt", ",", type((long, long)));
        size = 100;
        graph = select (k, b) from (a, b) in links group by k: a;
        R = repeat nodes = select <id: k, rank: 1.0 / size, adjacent: l> from (k, l) in graph
        step select (<id: m.id, rank: n.rank, adjacent: m.adjacent>, abs((n.rank - m.rank) / m.rank) > 0.1)
             from n in (select <id: k, rank: 0.15 / size + 0.85 * sum(c.rank)>
                        from c in (select <id: a, rank: n.rank / count(n.adjacent)> from n in nodes, a in n.adjacent)
                        group by k: c.id),
                  m in nodes
             where n.id = m.id
        limit 2;
        (count(R), sum(select r.rank from r in R));
        select (r.id, r.rank) from r in R order by r.rank desc;""",
    "udf_1": "function fact(n: int): int { if n = 0 then 1 else n * fact(n - 1) }; fact(10);",
    "core_1.1": "[1, 2, 3, 4][2];",
    "core_1.3": "[1, 2] + [1, 2, 3];",
    "core_1.4": '{("a", 1), ("b", 2)}["a"];',
    "core_1.min": "min({1, 2, 3});",
    "core_1.max": "max({1.2, 3.4});",
    "core_1.avg": "avg({1, 2, 3});",
    "core_1.sum": "sum({1.2, 3.4});",
    "loop_1.3": "repeat xx = {1, 2} step select (x + 1, true) from x in xx limit 2;",
    "loop_1.6": """repeat (xx, yy) = ({1, 2}, {3, 4})
        step ((select x + y from x in xx, y in yy), (select x * y from x in xx, y in yy)) limit 2;""",
}


def cases() -> list[dict]:
    """Return the expected answers, one for each case."""
    return [json.loads(line) for line in (FOLDER / "expected" / "expected.jsonl").read_text().splitlines()]


def tables(text: str) -> dict[str, ZBag]:
    """Return the inputs that a text names, read by Python's csv."""
    found = {}
    for one in readings(QueryText("case.mrql", text)):
        with (FOLDER / "input" / one.path).open(newline="") as lines:
            rows = [row[: len(one.schema)] for row in csv.reader(lines, delimiter=one.delimiter)]
        found[one.name] = zbag(rows_of([_typed(row, one.schema) for row in rows], one.schema))
    return found


def _typed(row: list[str], schema: Schema) -> list:
    kinds = {"int64": int, "float64": float, "text": str}
    return [kinds[of.kind](value) for value, of in zip(row, schema.types, strict=True)]


def wanted(case: dict) -> list[list]:
    """Return the expected rows of each output."""
    value = case["value"]
    if case["kind"] == "bags":
        return [[[item] for item in items] for items in value]
    if case["case"] == "pagerank_1":
        return [[value[:2]], value[2]]
    if case["kind"] == "summary":
        return [[value]]
    if case["kind"] == "value" and not isinstance(value, list):
        return [[[value]]]
    return [[_row(one) for one in value]]


def _row(value: object) -> list:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else [value]
