"""`dgs predict`: how fast a job would be on more hosts, and what bounds it, before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dgs.cli.options import AsJson, Debug, PlanFrom, PlanPath, SetValues, given_by_flags
from dgs.cli.reporting import print_json, reporting

if TYPE_CHECKING:
    from dgs.api.predicting import OnHosts

DEFAULT_HOSTS = "1,2,4,8,16"

HostCounts = Annotated[
    str,
    typer.Option("--hosts", metavar="N,N,...", help="The numbers of hosts to predict for, one core each."),
]


def predict(
    plan_path: PlanPath,
    *,
    hosts: HostCounts = DEFAULT_HOSTS,
    plan_from: PlanFrom = None,
    set_values: SetValues = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Predict the throughput of a job on different numbers of hosts. Its functions are tried on the first events."""
    counts = _counts(hosts)
    with reporting(as_json=as_json, debug=debug):
        from dgs.api.predicting import costs_of, predictions, stops_scaling
        from dgs.api.preparing import from_file, prepare

        prepared = prepare(from_file(plan_path, given_by_flags(set_values, plan_from)))
        found = predictions(prepared, counts, costs_of(prepared))
        last = stops_scaling(found)
        if as_json:
            stops = None if last is None else {"hosts": last.hosts, "because": last.prediction.limit}
            print_json({"predictions": [_as_data(one) for one in found], "stops_scaling": stops})
            return
        _print_table(found)
        if last is not None:
            print(
                f"more than {last.hosts} host{'s' * (last.hosts > 1)} would not help: {last.prediction.limit}"
            )


def _counts(text: str) -> list[int]:
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = [0]
    if min(counts) < 1:
        raise typer.BadParameter(f"--hosts {text}: write numbers of hosts, such as {DEFAULT_HOSTS}")
    return sorted(set(counts))


def _print_table(found: list[OnHosts]) -> None:
    from dgs.planner.prediction.choice import rate

    print(
        f"{'hosts':>5} {'workers':>8} {'throughput':>16} {'synchronised':>13} {'bytes an event':>15}  bound by"
    )
    for one in found:
        predicted = one.prediction
        print(
            f"{one.hosts:>5} {one.workers:>8} {rate(predicted.throughput):>16} {predicted.synchronised:>13.2%} "
            f"{predicted.bytes_between:>15.1f}  {predicted.limit}"
        )


def _as_data(one: OnHosts) -> dict[str, object]:
    predicted = one.prediction
    return {
        "hosts": one.hosts,
        "workers": one.workers,
        "throughput": predicted.throughput,
        "synchronised": predicted.synchronised,
        "bytes_between": predicted.bytes_between,
        "limit": predicted.limit,
    }
