"""Starting Ray or connecting to it: on loopback, without a dashboard, quiet, and with a helpful error if that fails."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dgs.errors import DgsError, RayUnavailableError, RayUnreachableError
from dgs.workers.runtime.control import deferred

OBJECT_STORE_BYTES = 256 * 2**20

ADDRESS_SECONDS = 4.0
"""Seconds for a running cluster to accept a connection, and again to answer."""

HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""The first bytes of a client's connection, with empty settings."""

HTTP2_HEAD, HTTP2_SETTINGS = 9, 4
"""The length of a frame's head, and the type of a server's first frame."""

SETTINGS = {"worker_niceness": 0}
"""By default Ray gives its workers low priority. But hosts do the work of the run, and Spark beside them has normal priority."""


def secure_environment() -> None:
    """Make clusters that this process starts listen on loopback only, and require a token of their own.

    Ray reads these settings when it is imported. After that, this has no effect.
    """
    if "ray" in sys.modules:
        return
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # else Ray listens on every interface
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns about its own defaults
    if "RAY_AUTH_MODE" not in os.environ:
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


@contextmanager
def cluster(address: str, hosts: int) -> Iterator[Any]:
    """Yield the `ray` module, connected to the cluster that this process already uses, else to `address`.

    `local` starts a cluster for the time of the run, with all its sockets on the loopback interface and at least one CPU for
    each of `hosts` processes. Raises RayUnavailableError if Ray is not installed or does not start, and
    RayUnreachableError if no cluster answers at the address.
    """
    if address == "local":
        secure_environment()
    try:
        import ray
    except ImportError as error:
        raise RayUnavailableError(problem=f"it is not installed ({error})") from error
    if ray.is_initialized():
        yield ray
        return
    with _private_directory() as directory:
        try:
            with deferred(), _own_handlers_kept():
                _start(ray, address, hosts, directory)
        except DgsError:
            raise
        except Exception as error:
            raise RayUnavailableError(
                problem=f"it does not start: {str(error).strip().splitlines()[0]}"
            ) from error
        try:
            yield ray
        finally:
            with deferred():
                ray.shutdown()


def answers(address: str) -> bool:
    """Return whether something that speaks Ray's protocol (HTTP/2) listens at an address HOST:PORT; True for any other form.

    Ray itself would try for minutes.
    """
    host, colon, port = address.rpartition(":")
    if not colon or "/" in address or not port.isdigit() or os.environ.get("RAY_USE_TLS", "0") == "1":
        return True
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=ADDRESS_SECONDS) as channel:
            channel.settimeout(ADDRESS_SECONDS)
            channel.sendall(HTTP2_PREFACE)
            head = channel.recv(HTTP2_HEAD, socket.MSG_WAITALL)
    except (OSError, OverflowError):
        return False
    return len(head) == HTTP2_HEAD and head[3] == HTTP2_SETTINGS


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
def _private_directory() -> Iterator[str]:
    """Yield a directory that only this user may enter, for the sockets, logs and objects of a cluster that we start.

    Ray's default is a directory below /tmp that every user may write to. Ours is below /tmp, too: sockets need a short path.
    """
    with tempfile.TemporaryDirectory(prefix="dgs-ray-", dir="/tmp", ignore_cleanup_errors=True) as directory:
        yield f"{directory}/r"  # Ray widens the permissions of the directory that it gets


def _start(ray: Any, address: str, hosts: int, directory: str) -> None:
    quiet = {"logging_level": "ERROR", "log_to_driver": False}
    if address != "local":
        if not answers(address):
            raise RayUnreachableError(address=address, seconds=f"{ADDRESS_SECONDS:g}")
        ray.init(address=address, **quiet)
        return
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
