"""`dgs predict`: how fast a job would be on more hosts, and what bounds it, before anything runs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dgs.cli.options import PlanFrom, PlanPath, Rates, SetValues, given_by_flags, named
from dgs.cli.reporting import Ending, print_json, say, say_warning, verb

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dgs.api.predicting import OnHosts
    from dgs.api.preparing import Prepared
    from dgs.job.settings import Given
    from dgs.planner.prediction.model import Prediction

DEFAULT_HOSTS = "1,2,4,8,16"

BY, MARK = "dgs predict --plot", ": predicted throughput</text>"

# fmt: off
HostCounts = Annotated[str, typer.Option("--hosts", metavar="N,N,...",
    help="The numbers of hosts to predict for, one core each.")]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE.svg", callback=named(".svg"),
    help="Draw the throughput over the hosts into an SVG file.")]
AtLeast = Annotated[str | None, typer.Option("--at-least", metavar="RATE",
    help="Exit 1 if no number of hosts reaches it, such as 5M/s.")]
Simulate = Annotated[bool, typer.Option("--simulate",
    help="Also run the workers of each plan in virtual time, to check the prediction.")]
# fmt: on


@verb
def predict(
    ending: Ending,
    plan_path: PlanPath,
    *,
    hosts: HostCounts = DEFAULT_HOSTS,
    at_least: AtLeast = None,
    rates: Rates = None,
    simulate: Simulate = False,
    plot: Plot = None,
    plan_from: PlanFrom = None,
    set_values: SetValues = None,
) -> None:
    """Predict the throughput of a job on different numbers of hosts. Its functions are tried on the first events."""
    counts, wanted = _counts(hosts), _wanted(at_least)
    from dgs.api.predicting import costs_of, drawn, predictions
    from dgs.named_files import check_writable, write_named

    if plot is not None:
        check_writable(plot, BY, mark=MARK)
    prepared = _prepared(plan_path, given_by_flags(set_values, plan_from), rates)
    costs = costs_of(prepared)
    say_warning(prepared, costs)
    found = predictions(prepared, counts, costs.costs, simulates=simulate)
    _report(found, as_json=ending.as_json)
    if plot is not None:
        write_named(plot, drawn(found, prepared.config.name), BY, mark=MARK)
    best = max(found, key=lambda one: one.prediction.throughput)
    if best.prediction.throughput < wanted:
        say(_shortfall(prepared.config.name, str(at_least), best))
        raise typer.Exit(1)


def _prepared(plan_path: Path, given: Mapping[str, Given], rates: str | None) -> Prepared:
    """Return the job, at other rates if some are given."""
    from dgs.api.predicting import at_given_rates
    from dgs.api.preparing import from_file, prepare

    prepared = prepare(from_file(plan_path, given))
    return prepared if rates is None else at_given_rates(prepared, rates)


def _report(found: list[OnHosts], *, as_json: bool) -> None:
    """Print the predictions, and from which number of hosts on more would not help."""
    from dgs.api.predicting import stops_scaling

    last = stops_scaling(found)
    if as_json:
        stops = None if last is None else {"hosts": last.hosts, "because": _why(last.prediction)}
        print_json({"predictions": [_as_data(one) for one in found], "stops_scaling": stops})
        return
    _print_table(found)
    if found[0].simulated is not None:
        _print_simulated(found)
    if last is not None:
        print(f"more than {_hosts(last)} would not help: {_why(last.prediction)}")


def _shortfall(name: str, wanted: str, best: OnHosts) -> str:
    """Return a sentence about a rate that is not reached, with the bound that stops it."""
    from dgs.planner.prediction.choice import rate

    reached = rate(best.prediction.throughput)
    return f"dgs: {name} would not reach {wanted}: on {_hosts(best)} {reached}, where {best.prediction.limit}"


def _hosts(one: OnHosts) -> str:
    return "1 host" if one.hosts == 1 else f"{one.hosts} hosts"


def _wanted(text: str | None) -> float:
    """Return the events per second that a text such as `5M/s`, `3/h` or `20k` asks for, 0 for none."""
    from dgs.job.units import MOST_PER_SECOND, parse_rate

    if text is None:
        return 0.0
    try:
        return parse_rate(text if "/" in text else f"{text}/s")
    except ValueError:
        most = f"at most {MOST_PER_SECOND:g}/s"
        raise typer.BadParameter(
            f"--at-least {text}: write events per second, such as 5M/s, 20k or 300, {most}"
        ) from None


def _counts(text: str) -> list[int]:
    from dgs.job.schema_runtime import MOST_HOSTS

    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = [0]
    if min(counts) < 1:
        raise typer.BadParameter(f"--hosts {text}: write numbers of hosts, such as {DEFAULT_HOSTS}")
    if max(counts) > MOST_HOSTS:
        raise typer.BadParameter(f"--hosts {text}: a run has at most {MOST_HOSTS} hosts")
    return sorted(set(counts))


def _why(prediction: Prediction) -> str:
    """Return what bounds a prediction, as a clause with the busiest worker."""
    return f"{prediction.limit} ({prediction.busiest})"


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


def _print_simulated(found: list[OnHosts]) -> None:
    """Print each figure of the model beside that of virtual time, with their ratio."""
    print("\nmodel / virtual time = ratio")
    print(f"{'hosts':>5} {'events/s':>26} {'p50':>26} {'p99':>26} {'bytes between/event':>26}")
    for one in found:
        pairs = _beside(one).values()
        print(f"{one.hosts:>5} {' '.join(f'{_compared(*pair):>26}' for pair in pairs)}")


def _compared(model: float, virtual: float) -> str:
    """Return two figures with their ratio.

    >>> _compared(12000.0, 10000.0), _compared(0.0, 0.0)
    ('1.2e+04 / 1e+04 = 1.20', '0 / 0')
    """
    ratio = f" = {model / virtual:.2f}" if virtual else ""
    return f"{model:.3g} / {virtual:.3g}{ratio}"


def _beside(one: OnHosts) -> dict[str, tuple[float, float]]:
    """Return each figure of the model with that of virtual time, by name; none if nothing was simulated."""
    predicted, virtual = one.prediction, one.simulated
    if virtual is None:
        return {}
    return {
        "throughput": (predicted.throughput, virtual.throughput),
        "p50": (one.latency.p50, virtual.latency.p50),
        "p99": (one.latency.p99, virtual.latency.p99),
        "bytes_between": (predicted.bytes_between, virtual.bytes_between),
    }


def _time(seconds: float) -> str:
    """Return seconds as text.

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
        **({"simulated": _simulated_data(one)} if one.simulated else {}),
    }


def _simulated_data(one: OnHosts) -> dict[str, object]:
    pairs = _beside(one)
    ratios = {name: model / virtual if virtual else None for name, (model, virtual) in pairs.items()}
    return {**{name: virtual for name, (_, virtual) in pairs.items()}, "ratios": ratios}
