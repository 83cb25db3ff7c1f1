"""Settings and fixtures of all tests."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from hypothesis import settings

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
