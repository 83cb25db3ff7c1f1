"""Sums of floats without rounding: they equal the sums of the present rows, whatever rows came and went, in any order."""

import math
import struct
from fractions import Fraction
from random import Random
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("duckdb")

import dgs
from dgs import codec
from dgs.query import compact, duck
from dgs.query.build import average, stream, total
from dgs.query.compact import answering
from dgs.query.compact.payloads import Weight
from dgs.query.errors import QueryError
from dgs.query.program import QueryProgram
from dgs.query.relation import Aggregate, Source
from dgs.query.split.exact_sums import LIMBS, bin_of, bins, limbs
from dgs.query.types import FLOAT, INT, Schema
from tests.dgs.query import drawn
from tests.dgs.query.drawn import Drawing
from tests.dgs.query.test_theorems import Case

FAR = (0.1, 1e16, -1e16, 0.3, 1e-300, -7.7, 1e200, 2.5)
"""Floats whose sums are rounded in nearly every order."""


def floats(seed, count):
    """Floats of all magnitudes, and those at the ends of bins."""
    random = Random(seed)
    drawn_ones = [struct.unpack("d", random.randbytes(8))[0] for _ in range(count)]
    ends = [
        5e-324,
        2.0**-1022,
        1.7976931348623157e308,
        2.0**-32,
        -(2.0**32),
        math.nextafter(2.0**32, 0),
        0.0,
        -0.0,
    ]
    return [*drawn_ones, *ends, math.inf, -math.inf, math.nan]


def test_a_float_is_its_bin_and_limbs_in_python_numpy_and_duckdb():
    values = floats(1, 2000)
    found = [[bin_of(one), *(limb(one) for limb in LIMBS)] for one in values]
    for value, (place, *parts) in zip(values, found, strict=True):
        if math.isfinite(value):
            made = sum(Fraction(2) ** (29 * number) * one for number, one in enumerate(parts))
            assert made * Fraction(2) ** (64 * place - 84) == Fraction(value)
            assert max(map(abs, parts)) < 2**29
    array = np.array(values)
    columns = [bins(array), *(limbs(number, array) for number in range(4))]
    assert np.transpose(columns).tolist() == found
    names = ["float_bin", *(f"float_limb{number}" for number in range(4))]
    statement = f"SELECT {', '.join(f'{name}(x) AS {name}' for name in names)} FROM t"
    table = duck.run(statement, {"t": pa.table({"x": array})}, Schema(tuple((name, INT) for name in names)))
    assert [list(row.values()) for row in table.to_pylist()] == found


@pytest.mark.parametrize("few", [200, -1], ids=["interpreter", "Arrow"])
@pytest.mark.parametrize("small", [200, 0], ids=["dictionary", "runs"])
def test_sums_are_those_of_the_remaining_rows(few, small, monkeypatch):
    monkeypatch.setattr(answering, "FEW", few)
    monkeypatch.setattr(compact, "SMALL", small)
    rows = stream("r", deletes=True, k=INT, x=FLOAT)
    program = QueryProgram(rows.group("k", s=total(rows.x), a=average(rows.x)).relation, exact=True)
    for seed in range(12):
        random = Random(seed)
        values = FAR if seed % 3 else (0.1, 1e9, -1e9, 0.3)  # of several bins, of one
        there = [(random.randrange(3), random.choice(values)) for _ in range(20)]
        gone = [(random.randrange(3), random.choice(values)) for _ in range(20)]
        changes = [*((row, 1) for row in (*there, *gone)), *((row, -1) for row in gone)]
        random.shuffle(changes)
        states = [program._of_rows("r", {(*row, weight): 1}) for row, weight in changes]
        while len(states) > 1:
            random.shuffle(states)
            states.append(program.join(states.pop(), states.pop()))
        groups = {}
        for key, value in there:
            groups.setdefault(key, []).append(Fraction(value))
        expected = [
            (key, float(sum(some)), float(sum(some)) / len(some)) for key, some in sorted(groups.items())
        ]
        assert program.answering.rows("answer", program.answering.tables(states[0])["answer"]) == expected


def unlike(query, case):
    """Whether two orders of one history give different bytes, or an answer that differs from the interpreter's."""
    found = [case.joined(case.states()) for _ in range(2)]
    answers = [repr(case.answer(one)) for one in found]
    return codec.encode(found[0]) != codec.encode(found[1]) or answers != [repr(case.expected())] * 2


class OfFloats(Drawing):
    """A random query most columns of which are floats, and nearly all aggregates sums."""

    def _stream(self, name):
        types = (INT, *self.random.choices((FLOAT, FLOAT, INT), k=2))
        columns = tuple((f"{name}{place}", one) for place, one in enumerate(types))
        return Source(name, Schema(columns), deletes=self.deletes)

    def aggregate(self, schema):
        if self.random.random() < 0.3:
            return super().aggregate(schema)
        where = self.condition(schema) if self.random.random() < 0.2 else None
        return Aggregate(self.random.choice(("sum", "avg")), (self.number_of(schema),), where=where)


def differences(seeds):
    """Return the seeds of random queries with answers that differ in any bit."""
    found = []
    for seed in seeds:
        drawing = OfFloats(Random(seed), deletes=seed % 4 < 3)
        query = drawing.query(depth=(1, 2, 3)[seed % 3])
        try:
            program = QueryProgram(query, exact=True)
            case = Case(seed, (drawing, query, program))
            case.expected()
        except QueryError:  # a product of two streams, or a sum beyond 64 bits
            continue
        with patch.object(answering, "FEW", -1 if seed % 6 == 5 else 200):
            found += [seed] if unlike(query, case) else []
    return found


@pytest.mark.parametrize(
    "seeds", [range(60), pytest.param(range(60, 3000), marks=pytest.mark.slow, id="many")]
)
def test_answers_of_random_queries_are_the_interpreter_s_to_the_last_bit(seeds, monkeypatch):
    monkeypatch.setitem(drawn.DOMAINS, "float64", FAR)
    assert differences(seeds) == []


def test_mutant_floats_are_added_as_they_come(monkeypatch):
    monkeypatch.setitem(drawn.DOMAINS, "float64", FAR)
    monkeypatch.setattr("dgs.query.split.weighing.Reducing.is_exact_sum", lambda *_: False)
    assert differences(range(60))


def test_a_variance_keeps_its_values():
    rows = stream("r", k=INT, x=FLOAT)
    program = QueryProgram(rows.group("k", s=total(rows.x)).relation, exact=True)
    assert program.split.klass == "A"
    query = dgs.query("select k, var_pop(x) v from r group by k", exact=True)
    values = [1e8 + one for one in (0.1, 0.2, 0.3)]
    mean = sum(map(Fraction, values)) / 3
    spread = float(sum((Fraction(one) - mean) ** 2 for one in values) / 3)
    assert query.extend(r=[{"k": 1, "x": one} for one in values]) == [{"k": 1, "v": spread}]
    assert query.explain().split.klass == "C"


def test_a_query_that_deletes_floats_is_advised_to_be_exact():
    rows = stream("r", deletes=True, k=INT, x=FLOAT)
    from dgs.query.relation import Script
    from dgs.query.standing.explanation import explained

    script = Script.of(rows.group("k", s=total(rows.x)).relation)
    assert "`exact: true`" in str(explained(script))
    assert "advice" not in str(explained(script, exact=True))
    assert QueryProgram(script).identity_parts() != QueryProgram(script, exact=True).identity_parts()
    assert QueryProgram(script, weights={"r": Weight("op")}, exact=True).made_by is not None
