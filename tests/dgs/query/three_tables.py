"""Customers, orders and line items made by integer arithmetic, with deletions: keys dangle, rows precede their partners."""

from __future__ import annotations

from collections import defaultdict

import dgs
from dgs.query.build import INT, count, stream, total
from dgs.query.compact.payloads import Weight

AT = (19_999, 39_999, 59_999)
CUSTOMER, ORDERS, LINEITEM, ANSWER = map(dgs.kind, ("customer", "orders", "lineitem", "answer"))


def mix(i, k):
    return ((i * 2654435761 + k * 40503) % 2**32) >> 8


def rows(scale=1):
    """The three streams, as (ts, record); line items have `op`. `scale`: keeps every `scale`-th line item."""
    customers = [
        (40 * c, {"custkey": c, "nation": mix(c, 1) % 25, "segment": mix(c, 2) % 5}) for c in range(1500)
    ]
    orders = [
        (4 * o, {"orderkey": o, "custkey": mix(o, 3) % 1600, "day": mix(o, 4) % 2400}) for o in range(15000)
    ]
    items = []
    for n in range(0, 60000, scale):
        item = {"orderkey": mix(n, 5) % 16000, "price": 100 + mix(n, 6) % 100000, "disc": mix(n, 7) % 11}
        items.append((n, {**item, "op": "I"}))
        if n % 10 == 3 and n + 5000 < 60000:
            items.append((n + 5000, {**item, "op": "D"}))
    items.sort(key=lambda one: (one[0], one[1]["op"] == "D"))
    return customers, orders, items


def query():
    """The query: revenue by nation."""
    customer = stream("customer", custkey=INT, nation=INT, segment=INT).named("c")
    orders = stream("orders", orderkey=INT, custkey=INT, day=INT).named("o")
    item = stream("lineitem", deletes=True, orderkey=INT, price=INT, disc=INT).named("l")
    joined = customer.join(orders, ("c.custkey", "o.custkey")).join(item, ("o.orderkey", "l.orderkey"))
    wanted = joined.where(orders["o.day"] < 1800, customer["c.segment"] == 2)
    revenue = total(item["l.price"] * (100 - item["l.disc"]))
    return wanted.group(nation=customer["c.nation"], n=count(), rev=revenue)


def program(**options):
    """The query as a program."""
    return query().program(weights={"lineitem": Weight("op", "I", "D")}, **options)


def streams(customers, orders, items):
    """The streams, and the answers at three times: declared last, so the rows at their times count."""
    found = {"customer": (CUSTOMER, customers), "orders": (ORDERS, orders), "lineitem": (LINEITEM, items)}
    made = {name: [(of(), ts, record) for ts, record in listed] for name, (of, listed) in found.items()}
    return made | {"answers": [(ANSWER(), ts, None) for ts in AT]}


def expected(customers, orders, items, at):
    """The answer at a time, by plain loops."""
    nation = {one["custkey"]: one["nation"] for ts, one in customers if ts <= at and one["segment"] == 2}
    customer = {one["orderkey"]: one["custkey"] for ts, one in orders if ts <= at and one["day"] < 1800}
    found = defaultdict(lambda: [0, 0])
    for ts, one in items:
        if ts <= at and customer.get(one["orderkey"]) in nation:
            sign = 1 if one["op"] == "I" else -1
            group = found[nation[customer[one["orderkey"]]]]
            group[0] += sign
            group[1] += sign * one["price"] * (100 - one["disc"])
    return [{"nation": key, "n": n, "rev": rev} for key, (n, rev) in sorted(found.items()) if n]
