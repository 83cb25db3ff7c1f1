"""A run on a cluster that has lost CPUs goes on with fewer hosts, or waits, and says what it lacks."""

import socket
from types import SimpleNamespace

import pytest

from dgs.errors import NoPlaceError, WorkerLostError
from dgs.job.schema import RuntimeConfig
from dgs.workers.ray_runtime.hosts import RayHosts
from dgs.workers.ray_runtime.ray_driver import hosts_with_a_place
from dgs.workers.runtime.job import Caller


def node(name, address, cpus, *, port, is_alive=True):
    """Return a node in Ray's format."""
    resources = {"CPU": float(cpus)} if cpus else {}
    return {
        "NodeID": name,
        "NodeManagerAddress": address,
        "NodeManagerPort": port,
        "Alive": is_alive,
        "Resources": resources,
    }


@pytest.fixture
def port():
    """A port that takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed_port():
    """A port where nothing answers."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def placed(nodes, **settings):
    """Return how many of four hosts a run gets, their nodes if Ray does not choose, and the notices."""
    told = []
    pool = SimpleNamespace(places=[])
    runtime = RuntimeConfig(hosts=4, **{"address": "127.0.0.1:6379", **settings})
    job = SimpleNamespace(runtime=runtime, plan=range(9))
    ray = SimpleNamespace(nodes=lambda: nodes)
    return hosts_with_a_place(ray, job, Caller(notify=told.append), pool), pool.places, told


@pytest.mark.parametrize("cpus", [4, 9])
def test_all_hosts_start_where_there_are_cpus(port, cpus):
    assert placed([node("a", "127.0.0.1", cpus, port=port)]) == (4, [], [])


def test_run_goes_on_with_fewer_hosts_and_names_the_lost_node(port):
    dead = node("b", "127.0.0.2", 9, port=port, is_alive=False)
    count, places, told = placed([node("a", "127.0.0.1", 3, port=port), dead])
    assert (count, places) == (3, [])
    assert told == ["node 127.0.0.2 is lost, and the cluster has 3 CPUs for 4 hosts: the run goes on with 3"]


def test_run_does_not_wait_until_ray_has_noticed_that_a_node_is_cut_off(port, closed_port):
    silent = node("b", "127.0.0.2", 9, port=closed_port)
    count, places, told = placed([node("a", "127.0.0.1", 3, port=port), silent])
    assert (count, places) == (3, ["a"] * 3)
    assert told == ["node 127.0.0.2 is lost, and the cluster has 3 CPUs for 4 hosts: the run goes on with 3"]


def test_hosts_start_on_nodes_that_answer_while_another_one_is_cut_off(port, closed_port):
    silent = node("b", "127.0.0.2", 9, port=closed_port)
    assert placed([silent, node("a", "127.0.0.1", 4, port=port)]) == (4, ["a"] * 4, [])


@pytest.mark.parametrize(("cpus", "settings"), [(3, {"fewer_hosts": "wait"}), (0, {})])
def test_run_waits_by_setting_or_if_no_node_is_left(port, cpus, settings):
    count, _, told = placed([node("a", "127.0.0.1", cpus, port=port)], **settings)
    assert count == 4
    assert told == [f"the cluster has {cpus} CPUs for 4 hosts: the run waits for others for 120 s"]


def test_a_run_that_waits_for_a_lost_node_says_to_start_it_again(port):
    nodes = [node("a", "127.0.0.1", 3, port=port), node("b", "127.0.0.2", 9, port=port, is_alive=False)]
    _, _, (told,) = placed(nodes, fewer_hosts="wait")
    wanted = (
        "node 127.0.0.2 is lost, and the cluster has 3 CPUs for 4 hosts: the run waits for others for 120 s. "
    )
    assert told == f"{wanted}Ray ends a node that was away for half a minute: start it again"


def test_a_host_without_a_place_names_the_lost_node_unless_it_is_back(port, monkeypatch):
    monkeypatch.setattr("dgs.workers.ray_runtime.hosts.START_SECONDS", 0.0)
    here, dead = node("a", "127.0.0.1", 3, port=port), node("b", "127.0.0.2", 9, port=port, is_alive=False)
    back = node("c", "127.0.0.1", 9, port=port, is_alive=False)
    for nodes, is_lost in ([here, dead], True), ([here, back], False), ([here], False):
        ray = SimpleNamespace(
            nodes=lambda nodes=nodes: nodes, wait=lambda all_of_them, timeout: ([], all_of_them)
        )
        hosts = RayHosts(ray, [SimpleNamespace(place=SimpleNamespace(remote=object))])
        with pytest.raises(NoPlaceError) as raised:
            hosts.start()
        assert ("node 127.0.0.2 is lost. Ray ends a node" in str(raised.value)) == is_lost


def test_cluster_of_the_runs_own_has_a_place_for_every_host():
    assert placed([], address="local") == (4, [], [])


class UnavailableError(Exception):
    """What Ray raises for an actor that it cannot reach."""


def lost(node):
    """Return what is said of a host on a node whose process Ray cannot reach."""

    def get(_):
        raise UnavailableError(
            "The actor 0123 is unavailable: RpcError: last error: UNKNOWN: ipv4: Connection refused"
        )

    errors = SimpleNamespace(
        RayTaskError=KeyError, RayError=UnavailableError, ActorUnavailableError=UnavailableError
    )
    actor = SimpleNamespace(place=SimpleNamespace(remote=lambda: ("here", 1)))
    ray = SimpleNamespace(
        exceptions=errors,
        nodes=lambda: [node],
        get=lambda reference: reference,
        wait=lambda references, timeout: (references, []),
        get_runtime_context=lambda: SimpleNamespace(get_node_id=lambda: "there"),
    )
    hosts = RayHosts(ray, [actor])
    hosts.start()
    ray.get = get
    with pytest.raises(WorkerLostError) as error:
        hosts.ask(lambda _: "call")
    return str(error.value)


def test_host_whose_node_is_gone_is_lost_with_its_address(closed_port):
    said = lost(node("here", "127.0.0.1", 1, port=closed_port))
    assert said.startswith("host 0 was lost: its node 127.0.0.1 does not answer")


def test_host_that_ray_cannot_reach_on_a_node_that_answers_is_said_in_a_sentence(port):
    said = lost(node("here", "127.0.0.1", 1, port=port))
    assert said.startswith("host 0 was lost: its process cannot be reached (on node 127.0.0.1)")
