"""One Spark for all tests: embedded, on loopback, stopped at the end. Without Java or PySpark the tests are skipped."""

import pytest

from dgs.config import SparkConfig
from dgs.errors import ResourceError

CONFIG = SparkConfig()


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    try:
        from spark_bridge.session import check_installed, session

        check_installed(CONFIG)
    except (ImportError, ResourceError) as error:
        pytest.skip(str(error))
    with session(CONFIG, tmp_path_factory.mktemp("spark")) as found:
        yield found
