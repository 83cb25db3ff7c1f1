"""The gallery of flows: wrong operators are found under their code, right ones raise no alarm."""

from __future__ import annotations

import pytest

import dgs
from dgs.flow import Flow, FlowError
from tests.gallery.flows import RIGHT, WRONG, flow_of

FEW = 60


@pytest.mark.parametrize("name", WRONG)
def test_wrong_operator_is_found_under_its_code(name: str) -> None:
    code = WRONG[name][0]
    assert found(flow_of(name)) == [code]


def found(flow: Flow) -> list[str]:
    """Return the codes of what is wrong with a flow: its types, or the laws of its steps."""
    try:
        flow.types()
    except FlowError as error:
        return error.codes
    return [one.law for one in dgs.check(flow, max_examples=FEW).broken]


@pytest.mark.parametrize("name", RIGHT)
def test_right_operator_raises_no_alarm(name: str) -> None:
    report = dgs.check(flow_of(name), max_examples=FEW)
    assert report.ok, str(report)
