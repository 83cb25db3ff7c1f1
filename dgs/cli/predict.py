"""`dgs predict`: how fast a job would be on more hosts, and what bounds it, before anything runs."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dgs.cli.options import AsJson, Debug, PlanFrom, PlanPath, SetValues, given_by_flags
from dgs.cli.reporting import print_json, reporting, say, say_warning

if TYPE_CHECKING:
    from dgs.api.predicting import OnHosts
    from dgs.planner.prediction.model import Prediction

DEFAULT_HOSTS = "1,2,4,8,16"

HostCounts = Annotated[
    str,
    typer.Option("--hosts", metavar="N,N,...", help="The numbers of hosts to predict for, one core each."),
]


Rates = Annotated[
    str | None,
    typer.Option(
        "--rates",
        metavar="FILE|TAG=RATE,...",
        help="Rates in place of sampled ones: of kinds or tags, such as 'view=5k/s,view(7)=2k/s', or a YAML file of them.",
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw the throughput over the hosts into an SVG file."),
]
AtLeast = Annotated[
    str | None,
    typer.Option("--at-least", metavar="RATE", help="Exit 1 if no number of hosts reaches it, such as 5M/s."),
]


def predict(
    plan_path: PlanPath,
    *,
    hosts: HostCounts = DEFAULT_HOSTS,
    at_least: AtLeast = None,
    rates: Rates = None,
    plot: Plot = None,
    plan_from: PlanFrom = None,
    set_values: SetValues = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Predict the throughput of a job on different numbers of hosts. Its functions are tried on the first events."""
    counts, wanted = _counts(hosts), _wanted(at_least)
    with reporting(as_json=as_json, debug=debug):
        from dgs.api.predicting import (
            at_given_rates,
            costs_of,
            drawn,
            given_rates,
            predictions,
            stops_scaling,
        )
        from dgs.api.preparing import from_file, prepare
        from dgs.planner.prediction.choice import rate

        request = from_file(plan_path, given_by_flags(set_values, plan_from))
        prepared = prepare(request)
        if rates is not None:
            prepared = at_given_rates(prepared, given_rates(rates))
        costs = costs_of(prepared)
        say_warning(prepared, costs)
        found = predictions(prepared, counts, costs.costs)
        last = stops_scaling(found)
        if plot is not None:
            _draw(plot, drawn(found, prepared.config.name))
        if as_json:
            stops = None if last is None else {"hosts": last.hosts, "because": _why(last.prediction)}
            print_json({"predictions": [_as_data(one) for one in found], "stops_scaling": stops})
        else:
            _print_table(found)
            if last is not None:
                print(
                    f"more than {last.hosts} host{'s' * (last.hosts > 1)} would not help: {_why(last.prediction)}"
                )
        best = max(found, key=lambda one: one.prediction.throughput)
        if best.prediction.throughput < wanted:
            say(
                f"dgs: {prepared.config.name} would not reach {at_least}: on {best.hosts} host{'s' * (best.hosts > 1)}"
                f" {rate(best.prediction.throughput)}, where {best.prediction.limit}"
            )
            raise typer.Exit(1)


def _wanted(text: str | None) -> float:
    """Return the events per second that a text such as `5M/s` or `20k` asks for, 0 for none."""
    if text is None:
        return 0.0
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([kM]?)(?:/s)?", text.strip())
    if found is None:
        raise typer.BadParameter(f"--at-least {text}: write events per second, such as 5M/s, 20k or 300")
    return float(found[1]) * {"": 1.0, "k": 1e3, "M": 1e6}[found[2]]


def _counts(text: str) -> list[int]:
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = [0]
    if min(counts) < 1:
        raise typer.BadParameter(f"--hosts {text}: write numbers of hosts, such as {DEFAULT_HOSTS}")
    return sorted(set(counts))


def _why(prediction: Prediction) -> str:
    """Return what bounds a prediction, as a clause with the busiest worker."""
    return f"{prediction.limit} ({prediction.busiest})"


def _draw(place: Path, drawing: str) -> None:
    from dgs.errors import OutputUnwritableError

    try:
        place.write_text(drawing, encoding="utf-8")
    except OSError as error:
        raise OutputUnwritableError(path=place, problem=error.strerror or str(error)) from None


def _print_table(found: list[OnHosts]) -> None:
    from dgs.planner.prediction.choice import rate

    print(
        f"{'hosts':>5} {'workers':>8} {'throughput':>16} {'synchronised':>13} {'bytes between':>15} {'p50':>9} {'p99':>9}  bound by"
    )
    for one in found:
        predicted, latency = one.prediction, one.latency
        print(
            f"{one.hosts:>5} {one.workers:>8} {rate(predicted.throughput):>16} {predicted.synchronised:>13.2%} "
            f"{one.bytes_per_second:>13,.3g}/s {_time(latency.p50):>9} {_time(latency.p99):>9}  {_why(predicted)}"
        )


def _time(seconds: float) -> str:
    """Return seconds as people write them.

    >>> _time(0.0000052), _time(0.0123), _time(2.0)
    ('5.2 us', '12.3 ms', '2 s')
    """
    for size, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def _as_data(one: OnHosts) -> dict[str, object]:
    predicted = one.prediction
    return {
        "hosts": one.hosts,
        "workers": one.workers,
        "throughput": predicted.throughput,
        "synchronised": predicted.synchronised,
        "bytes_between": predicted.bytes_between,
        "bytes_between_per_second": one.bytes_per_second,
        "latency": asdict(one.latency),
        "busiest": {**asdict(predicted.busiest), "because": str(predicted.busiest)},
        "limit": predicted.limit,
    }
