"""Errors of a run's surroundings: packages, Ray, Spark, sockets, directories, logs."""

from __future__ import annotations

import errno
import os
import re

from dgs.errors.families import InvalidError, ResourceError


class RayUnavailableError(ResourceError):
    """Ray is not installed or does not start."""

    code = "DGS401"
    template = "Ray is not available: {problem}"
    fix = "If it is not installed: `pip install 'dgs[ray]'`. `--runtime local` needs no Ray"


class RayUnreachableError(ResourceError):
    """No Ray cluster answers at an address."""

    code = "DGS514"
    template = "no Ray cluster answers at {address} within {seconds} s"
    fix = "Start one there with `ray start --head`, correct `runtime.address`, or leave it out for a cluster of the run's own"


class RayRefusedError(ResourceError):
    """A Ray cluster does not let this user in."""

    code = "DGS516"
    template = "the Ray cluster at {address} does not take the token of this user"
    fix = (
        "Set RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH) to the cluster's own, correct `runtime.address`, "
        "or leave it out for a cluster of the run's own"
    )


class NoPlaceError(ResourceError):
    """Ray has no place for a host of the run."""

    code = "DGS515"
    template = "Ray has not started host {host} within {seconds} s{lost}"
    fix = "Start a lost node again, add CPUs to the cluster, ask for fewer `runtime.hosts`, or let `runtime.fewer_hosts` be `go_on`"


class OutputUnwritableError(ResourceError):
    """Outputs or the run directory cannot be written."""

    code = "DGS402"
    template = "cannot write to {path}: {problem}"
    fix = "Make room there and let this user write, or name another place: the `path` of a sink, the `log` of a source, or `--run-dir`"


_LINK_LOOP = re.compile("Symlink loop from '(.*)'")
"""What Python before 3.13 says of links in a circle, as a RuntimeError."""


class SystemRefusalError(ResourceError):
    """The operating system refuses an operation on a file, a directory or stdout."""

    code = "DGS451"
    template = "{place}: {problem}"
    fix = "Look at the path, at what this user may do there, and at the room on that disk; --debug shows what was done"

    @classmethod
    def found_in(cls, error: Exception) -> SystemRefusalError | None:
        """Return the refusal of the system that an exception tells of, None for any other exception."""
        if isinstance(error, RuntimeError) and (loop := _LINK_LOOP.fullmatch(str(error))):
            return cls(place=loop[1], problem=os.strerror(errno.ELOOP))
        return cls.of(error) if isinstance(error, OSError) and error.errno is not None else None

    @classmethod
    def of(cls, error: OSError) -> SystemRefusalError:
        """Return the error with its file; printing has none."""
        names = [str(name) for name in (error.filename, error.filename2) if name is not None]
        return cls(place=" and ".join(names) or "stdout or a file", problem=error.strerror or str(error))


class MissingPackageError(ResourceError):
    """An optional package is needed and absent."""

    code = "DGS403"
    template = "{feature} needs the package {package!r}, which is not installed"
    fix = "Install it with `pip install {package}`"


class ChannelUnavailableError(ResourceError):
    """A host cannot listen for other hosts, or cannot reach one."""

    code = "DGS404"
    template = "host {host} has no channel to the others: {problem}"
    fix = "Let the machines connect to each other, or set `transport: ray` under `runtime:`"


class OwnedLogError(ResourceError):
    """An event log belongs to another writer."""

    code = "DGS410"
    template = "event log {path}: stream {stream!r} is written by {owner!r}, not by {writer!r}"
    fix = "A log has one writer: use another log, or take this one over for good"


class JavaMissingError(ResourceError):
    """Spark needs Java, and no suitable one is found."""

    code = "DGS411"
    template = "Spark needs Java 17 or newer: {problem}"
    fix = (
        "Install one (`apt install openjdk-17-jre-headless`, `brew install openjdk@17`, or from https://adoptium.net), "
        "or set JAVA_HOME to its directory"
    )


class SparkUnavailableError(ResourceError):
    """Spark does not start, or cannot be reached."""

    code = "DGS412"
    template = "Spark is not available: {problem}"
    fix = "Spark's messages are in {log}; its settings are under `spark:` in the plan file"


class SparkUnreachableError(ResourceError):
    """Nothing listens at the configured address of Spark."""

    code = "DGS413"
    template = "no answer at {address!r}, the address of Spark in `{setting}`: {problem}"
    fix = "Start Spark there or correct the address; without `{setting}`, Spark runs on this machine"


class CompileError(InvalidError):
    """A program is to be compiled (`compile: require`), and its update is not accepted."""

    code = "DGS414"
    template = "update of program {program} is not compiled for kind {kind!r}: {problem}"
    fix = "Change the line, or set `compile: auto` or `off` under `runtime:`: the program is then interpreted"
