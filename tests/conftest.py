"""Settings and fixtures of all tests, and which of them may run side by side.

`make test` runs two processes. What needs Ray or Spark runs in one of them, in its order, so that each is started once; the
rest goes by file to whichever is free.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, settings

from dgs.config import SparkConfig
from dgs.errors import ResourceError
from tests.spark_bridge.using import BRIEF
from workers.ray_cluster import cluster, secure_environment

secure_environment()  # before anything imports Ray

NOISY = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
"""Machines are shared and noisy: no test may depend on timing."""
settings.register_profile(
    "dgs", derandomize=True, **NOISY
)  # the same examples every time: what passed, passes
settings.register_profile("exploring", derandomize=False, print_blob=True, **NOISY)  # others: `make test-all`
settings.load_profile("dgs")

ENGINES = {"ray_cluster", "spark"}
"""The fixtures that start something large."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Tell which tests stay together."""
    file = item.nodeid.partition("::")[0]
    item.add_marker(pytest.mark.xdist_group("engines" if uses_engine(item) else file))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes longest as a whole, Ray and Spark, where several processes run."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: not uses_engine(item))


def uses_engine(item: pytest.Item) -> bool:
    """Return whether a test needs Ray or Spark."""
    fixtures = getattr(item, "fixturenames", ())
    return bool(ENGINES.intersection(fixtures)) or item.get_closest_marker("ray") is not None


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[object]:
    """One Ray for all tests: on loopback, with bounded memory, stopped at the end."""
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    with cluster("local", 2) as ray:
        yield ray


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """One Spark for all tests: embedded, on loopback, with bounded memory, stopped at the end."""
    config = SparkConfig(conf={"spark.driver.memory": "1g", **BRIEF})
    try:
        from spark_bridge.session import check_installed, session

        check_installed(config)
    except ResourceError as error:
        pytest.skip(str(error))
    with session(config, tmp_path_factory.mktemp("spark")) as found:
        yield found
