"""The smart homes as flows, against outputs of plain loops over whole inputs."""

from pathlib import Path

import pytest

import dgs
from tests.dgs.flow.published import HAS_CASES, digest, expected

HOME = Path(__file__).parents[2] / "experiments" / "smart_home"
pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not HAS_CASES, reason="the cases are not beside the checkout"),
]


def outputs(plan, hold, seed, run_dir):
    settings, optimizer = {"flow.args.hold": hold}, {"name": "random", "seed": seed}
    return dgs.run(HOME / plan, settings=settings, optimizer=optimizer, run_dir=run_dir / "run").outputs


@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize(("hold", "name"), [(False, "plugs_as_published"), (True, "plugs_hold")])
def test_plugs_are_those_of_the_case(hold, name, seed, tmp_path):
    assert digest(outputs("plugs.yaml", hold, seed, tmp_path)) == expected(name)


@pytest.mark.slow
@pytest.mark.parametrize(("hold", "name"), [(False, "smart_home_as_published"), (True, "smart_home_hold")])
def test_loads_of_regions_are_those_of_the_case(hold, name, tmp_path):
    assert digest(outputs("power.yaml", hold, 1, tmp_path)) == expected(name)
