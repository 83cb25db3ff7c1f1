"""Flows on the local runtime."""

import pytest

import dgs
from dgs.flow import FlowError, flow
from dgs.monoids import COUNT
from tests.dgs.flow import flows
from tests.dgs.flow.published import (
    HAS_CASES,
    campaigns,
    clusters,
    digest,
    expected,
    since_404,
    tiny_tumbling,
    yahoo_events,
)


def test_run_of_a_flow_gives_its_outputs():
    rows = [(3, "a", 1), (9, "b", 2), (10, "a", 4), (10, "a", 4), (31, "c", 8)]
    streams = {"rows": [(ts, {"key": key, "value": value}) for ts, key, value in rows]}
    run = dgs.run(tiny_tumbling.bind(idle="skip"), streams=streams, runtime="local", verify=True)
    assert sorted(run.outputs) == [[10, "a", 1], [10, "b", 2], [20, "a", 8], [40, "c", 8]]


@pytest.mark.data
@pytest.mark.skipif(not HAS_CASES, reason="the cases are not beside the checkout")
@pytest.mark.parametrize(("flow", "name"), [(campaigns, "yahoo_4_all"), (clusters, "yahoo_6")])
@pytest.mark.parametrize("optimizer", ["auto", {"name": "random", "seed": 3}])
def test_run_of_a_published_flow_gives_the_rows_of_its_case(flow, name, optimizer):
    run = dgs.run(flow, streams=yahoo_events(), runtime="local", optimizer=optimizer)
    assert digest(run.outputs) == expected(name)


@pytest.mark.data
@pytest.mark.skipif(not HAS_CASES, reason="the cases are not beside the checkout")
def test_run_of_a_flow_into_a_program_gives_the_rows_of_its_case():
    from tests.dgs.flow.published import apache

    run = dgs.run(since_404, streams=apache(), runtime="local", optimizer={"name": "random", "seed": 3})
    assert digest(run.outputs) == expected("apache_since_404")


def test_run_of_a_random_flow_has_the_outputs_of_its_definition():
    for seed in range(12):
        case = flows.case(seed)
        run = dgs.run(case.flow, streams=case.inputs, runtime="local")
        assert flows.counted(run.outputs) == case.means(), f"seed {seed}"


def test_run_without_a_stream_is_refused():
    with pytest.raises(FlowError, match="parameter 'rows' has no stream"):
        dgs.run(tiny_tumbling.bind(idle="skip"), streams={})


@pytest.mark.parametrize("elements", [[1, 2], [(1,)], [(1, 2, 3)], 5, None, {"a": 1}, "text"])
def test_streams_that_are_no_lists_of_pairs_are_refused(elements):
    @flow()
    def counted(items):
        return items.key_by(lambda _, value: value).aggregate(COUNT)

    for give in (counted.denote, lambda streams: dgs.run(counted, streams=streams)):
        with pytest.raises(
            FlowError, match=r"F12 flow 'counted': parameter 'items' (has an element in row|gets no list)"
        ):
            give({"items": elements})
