"""A run on a cluster that has lost CPUs goes on with fewer hosts, or waits, and says what is missing."""

from types import SimpleNamespace

import pytest

from dgs.job.schema import RuntimeConfig
from dgs.workers.ray_runtime.ray_driver import hosts_with_a_place
from dgs.workers.runtime.job import Caller


def placed(cpus, *, gone=(), **settings):
    """Return how many hosts a run that wants four gets, and what it says."""
    told = []
    nodes = [
        {"NodeManagerAddress": address, "Alive": address not in gone} for address in ("10.0.0.1", "10.0.0.2")
    ]
    ray = SimpleNamespace(cluster_resources=lambda: {"CPU": float(cpus)} if cpus else {}, nodes=lambda: nodes)
    runtime = RuntimeConfig(hosts=4, **{"address": "10.0.0.1:6379", **settings})
    job = SimpleNamespace(runtime=runtime, plan=range(9))
    return hosts_with_a_place(ray, job, Caller(notify=told.append)), told


@pytest.mark.parametrize("cpus", [4, 9])
def test_all_hosts_start_where_there_are_cpus(cpus):
    assert placed(cpus) == (4, [])


def test_run_goes_on_with_fewer_hosts_and_names_the_lost_node():
    count, told = placed(3, gone=["10.0.0.2"])
    assert count == 3
    assert told == ["node 10.0.0.2 is lost, and the cluster has 3 CPUs for 4 hosts: the run goes on with 3"]


@pytest.mark.parametrize(("cpus", "settings"), [(3, {"fewer_hosts": "wait"}), (0, {})])
def test_run_waits_where_that_is_wanted_or_nothing_is_left(cpus, settings):
    count, told = placed(cpus, **settings)
    assert count == 4
    assert told == [f"the cluster has {cpus} CPUs for 4 hosts: the run waits for others for 120 s"]


def test_cluster_of_the_runs_own_has_a_place_for_every_host():
    assert placed(1, address="local") == (4, [])
