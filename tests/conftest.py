"""Settings and fixtures of all tests, and which tests run in one process.

`make test` runs three processes. Tests with Ray or Spark run in one of them, in their order, so that each engine starts once. The other tests
go by file to the free processes.
"""

from __future__ import annotations

import gc
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import chdir
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from dgs.errors import ResourceError
from dgs.errors.hidden_values import all_hidden, forget
from dgs.job.schema import SparkConfig
from dgs.workers.ray_runtime.cluster import cluster, secure_environment
from dgs.workers.runtime.engine import Engine
from dgs.workers.virtual.virtual_run import VirtualRun
from tests.installed import Environment, built_wheel, copied_sources, new_environment
from tests.spark_bridge.using import BRIEF

secure_environment()  # before anything imports Ray
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    # the tests run in the background, but the processes that they start do not
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)

NOISY = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
"""Machines are shared and noisy: no test may depend on timing."""
settings.register_profile("dgs", derandomize=True, max_examples=15, **NOISY)  # the same examples every time
# random examples: `make test-all`
settings.register_profile("exploring", derandomize=False, print_blob=True, **NOISY)
settings.load_profile("dgs")

ENGINES = {"ray_cluster", "spark"}
"""The fixtures that start something large."""
ENGINE_FILES = re.compile(
    r"tests/(spark_bridge/|test_packaging\b|experiments/test_(spark_runs|flow_hosts)|dgs/cli/test_cli_run\b|dgs/test_connected_runs\b"
    r"|workers/(test_(recorded_runs|runtimes|skipped_runs|what_programs_see)|transport/test_sockets|ray_runtime/test_(supervision|cluster|ray_lines)|runtime/test_(stall|uncarried_values))\b)"
)
"""The files whose tests need an engine. They run in one process."""


def group_of(test: str) -> str:
    """Return the group of a test, given its id. Tests of a group run in one process."""
    file = test.partition("::")[0]
    return "engines" if ENGINE_FILES.match(file) else file


def uses_engine(item: pytest.Item) -> bool:
    """Return whether a quick test needs Ray or Spark."""
    if item.get_closest_marker("slow"):
        return False
    return bool(ENGINES.intersection(getattr(item, "fixturenames", ()))) or bool(
        item.get_closest_marker("ray")
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse tests that would start a second Ray or Spark. With several processes, begin with the groups that take longest."""
    strays = {item.nodeid for item in items if uses_engine(item) and group_of(item.nodeid) != "engines"}
    if strays:
        raise pytest.UsageError(f"name the files in ENGINE_FILES of tests/conftest.py: {sorted(strays)}")
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: group_of(item.nodeid) != "engines")


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection: six thousand of them live to the end."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Return the scheduler that deals out the tests by group. (Marks of pytest-xdist for groups do nothing under pytest 9.)"""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return Groups(config, log)


@pytest.fixture(autouse=True)
def nothing_hidden() -> Iterator[None]:
    """Forget the values of environment variables in the plan files of a test: other texts may contain them."""
    yield
    for name in all_hidden():
        forget(name)


@pytest.fixture(scope="session", autouse=True)
def hosts_check_themselves() -> Iterator[None]:
    """Hosts, their workers and mailboxes check their states after every step, also in local runs and in virtual time."""
    with pytest.MonkeyPatch.context() as patch:
        for runner in (Engine, VirtualRun):
            patch.setattr(runner, "_step", checked(runner._step))
        yield


def checked(step: Callable[..., bool]) -> Callable[..., bool]:
    """Return a step after which its host checks its state. Raises InternalError."""

    def checking(runner: Any, *args: Any, **named: Any) -> bool:
        done = step(runner, *args, **named)
        if isinstance(runner, Engine):
            runner.host.validate_state()
        elif not done:  # the last step of a run in virtual time may end in the middle of a worker's step
            args[0].host.validate_state()
        return done

    return checking


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[object]:
    """One Ray for all tests: on loopback, with bounded memory, stopped at the end."""
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    # Ray's workers import from where it is started: `tests` must be there
    with chdir(Path(__file__).parents[1]):
        starting = cluster("local", 2)
        ray = starting.__enter__()
    try:
        yield ray
    finally:
        starting.__exit__(None, None, None)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """One Spark for all tests: embedded, on loopback, with bounded memory, stopped at the end."""
    config = SparkConfig(conf={"spark.driver.memory": "1g", **BRIEF})
    try:
        from dgs.spark_bridge.session.session import check_installed, session

        check_installed(config)
    except ResourceError as error:
        pytest.skip(str(error))
    with session(config, tmp_path_factory.mktemp("spark")) as found:
        yield found


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the checkout, built once for all tests."""
    folder = tmp_path_factory.mktemp("wheel")
    return built_wheel(copied_sources(folder / "sources"), folder)


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment into which the wheel is installed."""
    made = new_environment(tmp_path_factory.mktemp("installed") / "environment", wheel)
    where = made.run("python", "-c", "import dgs; print(dgs.__file__)", cwd=made.path)
    assert Path(where.stdout.strip()).parent == made.packages / "dgs", where.stderr
    return made
