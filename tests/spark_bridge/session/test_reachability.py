"""The check of Spark's address: one without a listener is an error at once."""

import socket

import pytest

from dgs.errors import SparkUnreachableError
from dgs.job.schema import SparkConfig
from dgs.spark_bridge.session.reachability import PROXIES, check_answers, hosts


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def silent():
    """Return a port that is bound but does not listen, so that no other process can listen there."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def test_address_without_a_listener_is_an_error(silent):
    with pytest.raises(SparkUnreachableError, match=r"sc://127.0.0.1:\d+.*spark.remote.*refused"):
        check_answers(SparkConfig(remote=f"sc://127.0.0.1:{silent};use_ssl=true"))
    with pytest.raises(SparkUnreachableError, match=r"spark\.master"):
        check_answers(SparkConfig(master=f"spark://127.0.0.1:{silent}"))


def test_settings_in_an_address_are_no_hosts():
    assert hosts("sc://server:1/;token=a,b:2") == [("server", 1)]


def test_server_behind_a_proxy_is_left_to_spark(silent, monkeypatch):
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    check_answers(SparkConfig(remote=f"sc://127.0.0.1:{silent}"))
    with pytest.raises(SparkUnreachableError):
        check_answers(SparkConfig(master=f"spark://127.0.0.1:{silent}"))


def test_one_master_that_answers_is_enough(listening, silent):
    check_answers(SparkConfig(master=f"spark://127.0.0.1:{silent},127.0.0.1:{listening}"))


@pytest.mark.parametrize(
    "master", ["local[*]", "yarn", "k8s://https://127.0.0.1:1", "spark://:x", "spark://a:b"]
)
def test_other_addresses_are_left_to_spark(master):
    check_answers(SparkConfig(master=master))
