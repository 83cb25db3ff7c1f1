"""The gallery of flows: wrong operators are found under their code, and right operators pass."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import dgs
from dgs.flow import Flow, FlowError, every, flow
from tests.gallery.flows import RIGHT, WRONG, flow_of

FEW = 60


@pytest.mark.parametrize("name", WRONG)
def test_wrong_operator_is_found_under_its_code(name: str) -> None:
    code = WRONG[name][0]
    assert found(flow_of(name)) == [code]


def found(flow: Flow) -> list[str]:
    """Return the codes of a flow's mistakes: in its types, or in the laws of its steps."""
    try:
        flow.types()
    except FlowError as error:
        return error.codes
    return [one.law for one in dgs.check(flow, max_examples=FEW).broken]


@pytest.mark.parametrize("name", RIGHT)
def test_right_operator_raises_no_alarm(name: str) -> None:
    report = dgs.check(flow_of(name), max_examples=FEW)
    assert report.ok, str(report)


def test_a_step_that_raises_is_named_with_its_function_and_its_key() -> None:
    def half(_key: object, value: int) -> float:
        return 1 / (value * 0)

    made = flow(clock=every(10))(lambda numbers: numbers.key_by(lambda _, v: v % 2).map(half))
    made.streams["numbers"] = int
    (broken,) = dgs.check(made, max_examples=FEW).broken
    assert broken.law == "R06"
    assert re.search(
        r"ZeroDivisionError: .* \(step 2 'map' at .*test_flow_gallery.py:\d+, function .*half, key [01], at -?\d+\)",
        broken.finding.what,
    )


def test_a_plan_file_gives_its_rows_also_if_a_stream_has_none(tmp_path: Path) -> None:
    (tmp_path / "flows.py").write_text(
        "from dgs.flow import every, flow\n"
        "from dgs.monoids import COUNT\n"
        "@flow(clock=every(10))\n"
        "def counts(a, b):\n"
        "    return a.merge(b).key_by('word').aggregate(COUNT)\n"
    )
    (tmp_path / "a.jsonl").write_text(
        '{"ts": 1, "payload": {"word": "x"}}\n{"ts": 2, "payload": {"word": "y"}}\n'
    )
    (tmp_path / "b.jsonl").write_text("")
    streams = [{"id": name, "source": {"jsonl": {"path": f"{name}.jsonl"}}} for name in ("a", "b")]
    data = {"version": 1, "name": "t", "flow": {"ref": "flows.py:counts"}, "streams": streams}
    (tmp_path / "plan.yaml").write_text(json.dumps(data))
    report = dgs.check(tmp_path / "plan.yaml", max_examples=10)
    assert report.ok, str(report)
    assert {"F21", "F22", "F23", "F24"} <= {one.law for one in report.laws}
