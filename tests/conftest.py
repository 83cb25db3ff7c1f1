"""Settings and fixtures of all tests."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from hypothesis import settings

from dgs.config import SparkConfig
from dgs.errors import ResourceError
from tests.spark_bridge.using import BRIEF
from workers.ray_cluster import cluster, secure_environment

secure_environment()  # before anything imports Ray

settings.register_profile("dgs", deadline=None)  # machines are shared and noisy: no test may depend on timing
settings.load_profile("dgs")


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
