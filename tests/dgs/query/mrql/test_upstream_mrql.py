"""Upstream's MRQL cases, on the interpreter."""

import pytest

pytest.importorskip("lark")

from dgs.query.evaluate import answers
from dgs.query.mrql import script
from dgs.query.types import order_key
from tests.dgs.query.mrql.upstream_mrql import TEXTS, cases, tables, wanted

LISTS = ("list", "keys")
"""Kinds of cases whose order counts."""


def check(case, outputs):
    """Compare the rows of outputs with the expected ones: in order, or as multisets; floats to 1e-9."""
    expected = wanted(case)
    assert len(outputs) == len(expected)
    for given, wanted_rows in zip(outputs, expected, strict=True):
        rows, these = [list(row) for row in given], wanted_rows
        if case["case"] == "pagerank_1":
            rows = rows[: len(these)]
        elif case["case"] == "joins_1.10":
            rows = [[dno] for _, dno, _ in rows]
        elif case["case"] == "group_by_order_by_1":
            counts = [count for _, count, _ in rows]
            assert counts == sorted(counts, reverse=True)
        if case["kind"] not in LISTS and case["case"] != "core_1.3":
            rows, these = sorted(rows, key=_place), sorted(these, key=_place)
        assert [list(map(type, map(_number, row))) for row in rows] == [
            list(map(type, map(_number, row))) for row in these
        ]
        assert [item for row in rows for item in row] == [
            pytest.approx(item, rel=1e-9, abs=1e-9) if isinstance(item, float) else item
            for row in these
            for item in row
        ]


def _place(row):
    return order_key(tuple(row))


def _number(value):
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def test_every_case_has_a_text():
    assert [case["case"] for case in cases()] == list(TEXTS)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["case"])
def test_case_on_the_interpreter(case):
    text = TEXTS[case["case"]]
    found = script(text, {})
    assert found.refused == ()
    check(case, list(answers(found, tables(text)).values()))
