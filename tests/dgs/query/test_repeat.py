"""Loops keep their answers: after every increment the answer is that of a run over all rows so far.

The mutant is the paper's method, which merges the state into itself before the increment. The tests must find it.
"""

from functools import cache
from random import Random

import pytest

pytest.importorskip("lark")

from dgs.query.evaluate import ZBag, answers, evaluate, sum_of, zbag
from dgs.query.mrql import script
from dgs.query.relation import Source
from dgs.query.split import split
from dgs.query.types import INT, Schema
from tests.selection import seeds

SOURCES = {
    "E": Source("E", Schema.of(a=INT, b=INT), deletes=True),
    "P": Source("P", Schema.of(x=INT), deletes=True),
}

LOOPS = {
    "closure": """repeat R = select distinct (e.a, e.b) from e in E
        step select distinct (a, b) from (a, b) in (R + (select (a, e.b) from (a, b) in R, e in E where b = e.a))
        until count(R) = count(old_R) limit 20;""",
    "ranks": """N = select distinct v from v in ((select e.a from e in E) + (select e.b from e in E));
        out = select (a, count(e)) from e in E group by a: e.a;
        repeat R = select (v, 1.0) from v in N
        step select (v, 0.2 + 0.8 * sum(select r / c from e in E, (u, r) in R, (t, c) in out where e.b = v and u = e.a and t = e.a))
             from v in N
        limit 4;""",
    "centres": """repeat C = [0.0, 2.5, 6.0]
        step select avg(p.x) from p in P group by k: argmin(c in C: (c - p.x) * (c - p.x)) limit 4;""",
    "totals": """repeat (s, n) = ((select 0 from i in {1}), (select 0 from i in {1}))
        step ((select v + sum(select p.x from p in P) from v in s), (select v + count(P) from v in n)) limit 3;""",
}


def history(random: Random) -> list[dict[str, ZBag]]:
    """Return batches of insertions and deletions. Only present rows are deleted."""
    there: dict[str, list] = {"E": [], "P": []}
    batches = []
    for _ in range(random.randint(2, 4)):
        batch: dict[str, ZBag] = {}
        for name, width in (("E", 2), ("P", 1)):
            new = [tuple(random.randint(0, 4) for _ in range(width)) for _ in range(random.randint(0, 4))]
            there[name] += new
            gone = random.sample(there[name], random.randint(0, len(there[name]) // 3))
            for row in gone:
                there[name].remove(row)
            batch[name] = sum_of(zbag(new), zbag(gone, -1))
        batches.append(batch)
    return batches


def compacted(compaction, batch):
    """Return the increment of a batch to the state of a compaction, as rows by key."""
    given = {name: zbag([(*row, weight) for row, weight in rows.items()]) for name, rows in batch.items()}
    width = len(compaction.keys)
    return {row[:width]: row[width:] for row in evaluate(compaction.query, given)}


def merged(compaction, one, other):
    """Merge two states of a compaction: parts add up, and keys of weight 0 are dropped."""
    assert all(how == "sum" for _, how in compaction.parts)
    found = dict(one)
    for key, parts in other.items():
        found[key] = tuple(a + b for a, b in zip(found[key], parts, strict=True)) if key in found else parts
    return {key: parts for key, parts in found.items() if parts[0]}


@cache
def read(name):
    """Return a loop as a script, and its split."""
    whole = script(LOOPS[name], SOURCES)
    return whole, split(whole)


def differs(name, seed, merge):
    """Whether some answer of a loop over a history differs from that of a run over all rows so far."""
    whole, parts = read(name)
    states = [{} for _ in parts.compactions]
    rows: dict[str, ZBag] = {"E": {}, "P": {}}
    for batch in history(Random(seed)):
        rows = {one: sum_of(rows[one], batch[one]) for one in rows}
        states = [
            merge(one, state, compacted(one, batch))
            for one, state in zip(parts.compactions, states, strict=True)
        ]
        given = {
            one.name: zbag(key + each for key, each in state.items())
            for one, state in zip(parts.compactions, states, strict=True)
        }
        found, expected = answers(parts.answer, given), answers(whole, rows)
        if any(not close(found[one], expected[one]) for one in expected):
            return True
    return False


def close(found, expected):
    """Whether rows are equal, floats to 1e-9: a state adds them in another order."""
    return len(found) == len(expected) and all(
        one == pytest.approx(other, rel=1e-9)
        for row, wanted in zip(found, expected, strict=True)
        for one, other in zip(row, wanted, strict=True)
    )


def merged_into_itself(compaction, state, increment):
    """Merge as the paper's loop does: the state is in the increment's diffusion, and is merged once more."""
    return merged(compaction, state, merged(compaction, state, increment))


@seeds(250)
@pytest.mark.parametrize("name", LOOPS)
def test_repeat_exact_is_batch(name, seeds):
    assert not [seed for seed in seeds if differs(name, seed, merged)]


@pytest.mark.parametrize("name", ["centres", "totals", "ranks"])
def test_a_state_that_is_merged_into_itself_is_seen(name):
    assert any(differs(name, seed, merged_into_itself) for seed in range(12))


def test_closure_is_reachability():
    batches = history(Random(5))
    edges = sum_of(*(one["E"] for one in batches))
    reached = set(edges)
    while more := {(a, d) for a, b in reached for c, d in edges if b == c} - reached:
        reached |= more
    (found,) = answers(script(LOOPS["closure"], SOURCES), {"E": edges}).values()
    assert found == sorted(reached)
