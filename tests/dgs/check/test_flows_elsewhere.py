"""`dgs check` of flows and pipelines in another process: with another hash seed, at another time."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import dgs
from dgs.check.report import LawResult
from dgs.errors import UsageError
from dgs.pico import from_stream, new, reduce

FLOWS = """
import datetime as dt
from functools import cache
from itertools import count

from dgs.flow import every, flow
from dgs.monoids import COUNT
from dgs.pico import from_stream, map, new

@flow(clock=every(10))
def hashes(a: str):
    return a.key_by(lambda _, v: hash(v) % 4).aggregate(COUNT)

@flow()
def first_of_a_set(a: str):
    return a.map(lambda _, v: list({v, v + "x", v + "y", v + "z"})[0])

@flow()
def years(a: int):
    return a.map(lambda _, v: dt.date.today().year - v)

@flow()
def numbers(a: int):
    numbers = count()
    number = cache(lambda value: next(numbers))
    return a.map(lambda _, v: number(v))

def hashed(times=1):
    return new(from_stream("a", gives=str)) | new(map(lambda v: hash(v) * times))

@flow(clock=every(10))
def words_of_a_set(a: str):
    return a.flat_map(lambda _, v: set(v)).key_by(lambda _, c: c).aggregate(COUNT)

@flow()
def set_in_order(a: str):
    return a.flat_map(lambda _, v: {v + c for c in "abcdefgh"}).key_by(lambda _, c: 0).fold(lambda s, c: [*s, c], [])
"""
FEW = 20


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "flows.py").write_text(FLOWS)
    return tmp_path / "flows.py"


def broken(file: Path, name: str) -> list[LawResult]:
    return list(dgs.check(f"{file}:{name}", max_examples=FEW).broken)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("hashes", "step 1 'key_by'"),
        ("first_of_a_set", "step 1 'map'"),
        ("years", "step 1 'map'"),
        ("numbers", "step 1 'map'"),
        ("hashed", "'map'"),
        ("set_in_order", "step 1 'flat_map'"),
    ],
)
def test_step_that_differs_elsewhere_is_found_with_its_place(file: Path, name: str, step: str) -> None:
    (law,) = broken(file, name)
    assert law.law == "F21"
    assert step in law.finding.what
    assert "in another process" in law.finding.what
    assert "flows.py:" in law.finding.what


def test_order_of_a_set_that_nothing_sees_is_no_mistake(file: Path) -> None:
    assert not broken(file, "words_of_a_set")


def test_flow_of_an_imported_module_is_found_by_its_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hashing_flows.py").write_text(FLOWS)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    flows = importlib.import_module("hashing_flows")
    assert [law.law for law in dgs.check(flows.hashes, max_examples=FEW).broken] == ["F21"]


def test_a_flow_that_cannot_be_imported_says_so() -> None:
    laws = {law.law: law for law in dgs.check(new(from_stream("a", gives=int)), max_examples=1).laws}
    assert laws["elsewhere"].status == "no need"
    assert "another process cannot import flow" in laws["elsewhere"].reason


def test_values_of_a_pipeline_are_those_of_its_sources() -> None:
    subtracted = new(reduce(lambda a, b: a - b))
    wrong = new(from_stream("a", structure="list", gives=int)) | subtracted
    assert [law.law for law in dgs.check(wrong, max_examples=FEW).broken] == ["F22"]
    with pytest.raises(UsageError, match=r"give the source a type \(`from_stream\('a', gives=str\)`\)"):
        dgs.check(new(from_stream("a", structure="list")) | subtracted)
