"""What a run needs of its surroundings and does not get: packages, Ray, Spark, sockets, directories, logs."""

from __future__ import annotations

from dgs.errors.families import ResourceError


class RayUnavailableError(ResourceError):
    """Ray is not installed or does not start."""

    code = "DGS401"
    template = "Ray is not available: {problem}"
    fix = "Install it with `pip install 'dgs[ray]'`, or run with `--runtime local`"


class OutputUnwritableError(ResourceError):
    """Outputs or the run directory cannot be written."""

    code = "DGS402"
    template = "cannot write to {path}: {problem}"
    fix = (
        "Make the directory writable or name another one: in `sinks:`, or for the run itself with `--run-dir`"
    )


class MissingPackageError(ResourceError):
    """An optional package is needed and absent."""

    code = "DGS403"
    template = "{feature} needs the package {package!r}, which is not installed"
    fix = "Install it with `pip install {package}`"


class ChannelUnavailableError(ResourceError):
    """A host cannot listen for the others, or not reach one of them."""

    code = "DGS404"
    template = "host {host} has no channel to the others: {problem}"
    fix = "Let the machines connect to each other, or set `transport: ray` under `runtime:`"


class OwnedLogError(ResourceError):
    """An event log belongs to another writer."""

    code = "DGS410"
    template = "event log {path}: stream {stream!r} is written by {owner!r}, not by {writer!r}"
    fix = "One writer owns a log: use a log of its own, or take it over for good"


class JavaMissingError(ResourceError):
    """Spark needs Java, and there is none that will do."""

    code = "DGS411"
    template = "Spark needs Java 17 or newer: {problem}"
    fix = (
        "Install one (`apt install openjdk-17-jre-headless`, `brew install openjdk@17`, or from https://adoptium.net), "
        "or set JAVA_HOME to where it is"
    )


class SparkUnavailableError(ResourceError):
    """Spark does not start, or cannot be reached."""

    code = "DGS412"
    template = "Spark is not available: {problem}"
    fix = "What Spark said is in {log}; settings are under `spark:` of the plan file"


class SparkUnreachableError(ResourceError):
    """Nobody listens where Spark is said to be."""

    code = "DGS413"
    template = "nobody answers at {address!r}, where `{setting}` says that Spark is: {problem}"
    fix = "Start it or correct the address; without `{setting}`, Spark runs on this machine"
