"""The flows of the published cases have the outputs of plain loops over whole inputs."""

import pytest

from dgs.flow.flow_program import FINAL
from tests.dgs.flow.flows import run
from tests.dgs.flow.published import (
    HAS_CASES,
    LARGE,
    SMALL,
    campaigns_tumbling,
    campaigns_tumbling_in_seconds,
    digest,
    expected,
    yahoo_events,
)

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not HAS_CASES, reason="the cases are not beside the checkout"),
]


@pytest.mark.parametrize("name", SMALL)
def test_definition_of_a_flow_has_the_outputs_of_the_case(name):
    flow, read = SMALL[name]
    assert digest(flow.denote(read())) == expected(name)


def outputs(flow, inputs):
    first, last = min(rows[0][0] for rows in inputs.values()), max(rows[-1][0] for rows in inputs.values())
    return [output.value for output in run(flow.compiled(), inputs, [(first + last) // 2, FINAL]).outputs]


@pytest.mark.parametrize("name", SMALL)
def test_compiled_flow_has_the_outputs_of_the_case(name):
    flow, read = SMALL[name]
    assert digest(outputs(flow, read())) == expected(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_large_compiled_flow_has_the_outputs_of_the_case(name):
    flow, read = LARGE[name]
    assert digest(outputs(flow, read())) == expected(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_definition_of_a_large_flow_has_the_outputs_of_the_case(name):
    flow, read = LARGE[name]
    assert digest(flow.denote(read())) == expected(name)


def test_tumbling_windows_do_not_depend_on_the_clock():
    inputs = yahoo_events()
    assert campaigns_tumbling_in_seconds.denote(inputs) == campaigns_tumbling.denote(inputs)
