"""Starting Ray or connecting to it: on loopback, without a dashboard, quiet, and with a helpful error if that fails."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dgs.errors import DgsError, RayRefusedError, RayUnavailableError, RayUnreachableError
from dgs.workers.ray_runtime.ray_leader import MISSED_SECONDS, RayLeader
from dgs.workers.ray_runtime.ray_lines import lines_kept, stderr_kept
from dgs.workers.runtime.control import deferred
from dgs.workers.storage.locks import FileLock, holder_of

OBJECT_STORE_BYTES = 256 * 2**20

ADDRESS_SECONDS = 4.0
"""Seconds for a running cluster to be found and to answer a connection, and again to accept or refuse our token."""

SHORT, PREFIX = "/tmp", "dgs-ray-"  # noqa: S108 - a name in it is made by mkdtemp
"""The folder of private directories, and the prefix of their names."""

LOCKED_SECONDS, UNLOCKED_SECONDS = 60.0, 86_400.0
"""The age from which a directory counts as left over, if nobody holds its lock or if it has none: a process may be about to take it."""

CLIENT_PORT = "10001"
"""Ray's default port of `ray://HOST`."""

HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""The first bytes of a client's connection, with empty settings."""

HTTP2_HEAD, HTTP2_SETTINGS = 9, 4
"""The length of a frame's head, and the type of a server's first frame."""

SETTINGS = {"worker_niceness": 0, "prestart_worker_first_driver": False, "free_objects_batch_size": 1}
"""By default Ray gives its workers low priority. But hosts do the work of the run, and Spark beside them has normal priority. It also
starts a worker for each CPU at once, of which a run with one host needs one, and keeps objects in shared memory for up to a second after their
last use, which is many times what a run may hold."""

NOT_NEEDED = {"no_monitor": True, "include_log_monitor": False}
"""Processes of Ray that have no use in a cluster of our own: one adds nodes to it, the other brings us what workers print. Without a
dashboard Ray still starts a server for it, which sends statistics of usage, and waits for that."""


def secure_environment() -> None:
    """Make clusters that this process starts listen on loopback only, and require a token of their own.

    Ray reads these settings when it is imported. After that, this has no effect.
    """
    if "ray" in sys.modules:
        return
    # by default Ray listens on every interface
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns about its own defaults
    if "RAY_AUTH_MODE" not in os.environ:
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


@dataclass(frozen=True)
class Connection:
    """The `ray` module, connected to a cluster; `renewed` starts another one for it. Raises RayUnreachableError if it is not ours."""

    ray: Any
    leader: RayLeader
    renewed: Callable[[], Connection]


@contextmanager
def cluster(address: str, hosts: int, log: Path | None = None) -> Iterator[Any]:
    """Yield the `ray` module, as `connected` does."""
    with connected(address, hosts, log) as connection:
        yield connection.ray


@contextmanager
def connected(address: str, hosts: int, log: Path | None = None) -> Iterator[Connection]:
    """Connect to the cluster that this process already uses, else to `address`.

    `local` starts a cluster for the time of the run, with all its sockets on the loopback interface and at least one CPU for
    each of `hosts` processes. `log`: the file for what Ray prints, None for none. Raises RayUnavailableError if Ray is not
    installed or does not start, RayUnreachableError if no cluster answers at the address, and RayRefusedError if one does not
    take our token.
    """
    if address == "local":
        secure_environment()
    try:
        # before the import of ray, which takes longer than an answer
        if address != "local" and not _is_connected():
            address = found_at(address)
        import ray
    except ImportError as error:
        raise RayUnavailableError(problem=f"it is not installed ({error})") from error
    is_own = address == "local" and not ray.is_initialized()

    def made() -> Connection:
        return Connection(ray, RayLeader(ray.get_runtime_context().gcs_address, is_own=is_own), renewed)

    def renewed() -> Connection:
        if not is_own:
            raise RayUnreachableError(address=address, seconds=f"{MISSED_SECONDS:g}")
        with deferred():
            ray.shutdown()
        start()
        return made()

    if ray.is_initialized():
        yield made()
        return
    with _private_directory() as directory, lines_kept(log) as lines:

        def start() -> None:
            with _failures_named(), deferred(), _own_handlers_kept(), stderr_kept(lines):
                _start(ray, address, hosts, directory)

        start()
        try:
            yield made()
        finally:
            with deferred():
                ray.shutdown()


@contextmanager
def _failures_named() -> Iterator[None]:
    """Turn errors that keep Ray from starting into RayUnavailableError."""
    try:
        yield
    except DgsError:
        raise
    except Exception as error:
        problem = f"it does not start: {str(error).strip().splitlines()[0].rstrip('.')}"
        raise RayUnavailableError(problem=problem) from error


def _is_connected() -> bool:
    return "ray" in sys.modules and bool(sys.modules["ray"].is_initialized())


def answers(address: str) -> bool:
    """Return whether something that speaks Ray's protocol (HTTP/2) listens at an address HOST:PORT; True for any other form.

    Ray itself would try for minutes. A thread looks, since looking up a name has no time limit.
    """
    host, colon, port = address.rpartition(":")
    if not colon or "/" in address or not port.isdigit() or os.environ.get("RAY_USE_TLS", "0") == "1":
        return True
    heads: list[bytes] = []

    def look() -> None:
        with (
            suppress(OSError, OverflowError),
            socket.create_connection((host.strip("[]"), int(port)), timeout=ADDRESS_SECONDS) as channel,
        ):
            channel.sendall(HTTP2_PREFACE)
            heads.append(channel.recv(HTTP2_HEAD, socket.MSG_WAITALL))

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    looking.join(ADDRESS_SECONDS)
    return any(len(head) == HTTP2_HEAD and head[3] == HTTP2_SETTINGS for head in heads)


def found_at(address: str) -> str:
    """Return the address of the cluster that answers; `auto` is the address in RAY_ADDRESS, else a cluster on this machine.

    Raises RayUnreachableError.
    """
    meant = os.environ.get("RAY_ADDRESS", "") if address == "auto" else address
    if not meant or meant == "auto":
        meant = _on_this_machine()
    host = meant.removeprefix("ray://").partition("/")[0]
    is_client = meant.startswith("ray://")
    if is_client and ":" not in host.rpartition("]")[2]:
        host = f"{host}:{CLIENT_PORT}"
    if not answers(host if is_client else meant):
        shown = meant if meant == address else f"{meant} (found for `{address}`)"
        raise RayUnreachableError(address=shown, seconds=f"{ADDRESS_SECONDS:g}")
    return meant


def _on_this_machine() -> str:
    from ray._private.services import get_ray_address_from_environment

    try:
        return str(get_ray_address_from_environment("auto", None))
    except ConnectionError:
        address = "`auto` (RAY_ADDRESS is not set, and none runs on this machine)"
        raise RayUnreachableError(address=address, seconds=f"{ADDRESS_SECONDS:g}") from None


def _check_token(address: str) -> None:
    """Raise RayRefusedError if a cluster refuses our token (Ray would try for 20 s), RayUnreachableError if no cluster answers."""
    from ray import _raylet
    from ray.exceptions import AuthenticationError, RpcError

    client = getattr(_raylet, "InnerGcsClient", None)  # not public: another version of Ray may not have it
    if client is None or "/" in address:
        return
    try:
        client.standalone(address, None, int(ADDRESS_SECONDS * 1000))
    except AuthenticationError:
        raise RayRefusedError(address=address) from None
    except RpcError:
        raise RayUnreachableError(address=address, seconds=f"{ADDRESS_SECONDS:g}") from None


@contextmanager
def _own_handlers_kept() -> Iterator[None]:
    """Keep Ray from handling SIGTERM while it starts: it would end the process at once, with its own exit code.

    Its C++ part also installs a handler, which aborts the process some seconds later. `deferred` removes that one.
    """
    from ray._private import utils as private

    theirs = private.set_sigterm_handler
    private.set_sigterm_handler = lambda _handler: None
    try:
        yield
    finally:
        private.set_sigterm_handler = theirs


@contextmanager
def _only_what_is_needed() -> Iterator[None]:
    """Keep Ray from starting the processes in NOT_NEEDED: `ray.init` has no parameters for them."""
    from ray._private import parameter, services

    params: Any = parameter
    servers: Any = services
    theirs = params.RayParams, servers.start_api_server
    params.RayParams = partial(theirs[0], **NOT_NEEDED)
    servers.start_api_server = lambda *_args, **_options: ("", None)  # no address, no process
    try:
        yield
    finally:
        params.RayParams, servers.start_api_server = theirs


@contextmanager
def _private_directory() -> Iterator[str]:
    """Yield a directory that only this user may enter, for the sockets, logs and objects of a cluster that we start.

    Ray's default is a directory below /tmp that every user may write to. Ours is below /tmp, too: sockets need a short path. Its lock tells
    directories of killed processes, which are removed, from those in use.
    """
    remove_left_directories()
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=SHORT, ignore_cleanup_errors=True) as directory:
        lock = FileLock(Path(directory, "lock"))
        try:
            yield f"{directory}/r"  # Ray widens the permissions of the directory that it gets
        finally:
            lock.release()


def remove_left_directories() -> None:
    """Remove private directories of this user's clusters if their process was killed, or if Ray wrote to them after it had ended."""
    for directory in Path(SHORT).glob(f"{PREFIX}*"):
        with suppress(OSError):  # another process removes it at the same time
            lock, found = directory / "lock", directory.stat()
            age = time.time() - (lock.stat() if lock.exists() else found).st_mtime
            is_left = (
                age > LOCKED_SECONDS and holder_of(lock) is None if lock.exists() else age > UNLOCKED_SECONDS
            )
            if is_left and found.st_uid == os.geteuid():
                shutil.rmtree(directory, ignore_errors=True)


def _start(ray: Any, address: str, hosts: int, directory: str) -> None:
    quiet = {"logging_level": "ERROR", "log_to_driver": False}
    if address != "local":
        _check_token(address)
        ray.init(address=address, **quiet)
        return
    with _only_what_is_needed():
        ray.init(
            address="local",
            num_cpus=max(hosts, os.cpu_count() or 1),
            object_store_memory=OBJECT_STORE_BYTES,
            include_dashboard=False,
            _system_config=SETTINGS,
            _node_ip_address="127.0.0.1",
            _temp_dir=directory,
            **quiet,
        )
