"""`dgs run`: run a plan file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from dgs.cli.options import (
    AsJson,
    Debug,
    Hosts,
    OptimizerName,
    PlanFrom,
    PlanPath,
    RuntimeName,
    SaveState,
    SetValues,
    Tolerance,
    given_by_flags,
)
from dgs.cli.reporting import reporting

MaxEvents = Annotated[
    int | None,
    typer.Option(
        "--max-events", min=0, metavar="N", help="Take only the first N events, in their total order."
    ),
]
ShowConfig = Annotated[
    bool,
    typer.Option(
        "--show-config", help="Print the resolved plan.yaml and where each value comes from; run nothing."
    ),
]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify", help="Also run the sequential program and compare; exit 1 if the outputs differ."
    ),
]
RunDir = Annotated[
    Path | None,
    typer.Option("--run-dir", metavar="DIR", help="Where the run leaves its files (default: .dgs/runs/ID)."),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with the unfinished run of this plan file, if there is one.")
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Begin anew although a run of this plan file is unfinished.")
]


def run(
    plan_path: PlanPath,
    *,
    resume: Resume = False,
    fresh: Fresh = False,
    runtime: RuntimeName = None,
    hosts: Hosts = None,
    optimizer: OptimizerName = None,
    plan: PlanFrom = None,
    set_values: SetValues = None,
    max_events: MaxEvents = None,
    verify: Verify = False,
    tolerance: Tolerance = None,
    save_state: SaveState = None,
    run_dir: RunDir = None,
    show_config: ShowConfig = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Run a plan file; outputs go to its sinks, or into the run directory. Ctrl-C stops it at a checkpoint."""
    with reporting(as_json=as_json, debug=debug) as ending:
        from dgs.api import starting
        from dgs.api.preparing import from_file, prepare
        from dgs.api.running import Options
        from dgs.cli.running import check_flags, new_directory, run_and_finish, stopped_by_sigterm

        check_flags(verify=verify, tolerance=tolerance, save_state=save_state)
        given = given_by_flags(
            set_values, plan, runtime__kind=runtime, runtime__hosts=hosts, optimizer__name=optimizer
        )
        request = from_file(plan_path, given)
        ending.name = request.settings.config.name
        if show_config:
            from dgs.cli.show_config import print_config

            print_config(request.settings, as_json=as_json)
            return
        options = Options(verify=verify, tolerance=tolerance)
        begun = starting.begun(request, run_dir, resume=resume, fresh=fresh)
        if begun is not None:
            from dgs.cli.resume import go_on

            go_on(begun, given, options, ending, save_state)
            return
        with stopped_by_sigterm():
            prepared = prepare(request, max_events=max_events)
            options = replace(options, resumes=starting.make_room(prepared, resume=resume, fresh=fresh))
            ending.directory = new_directory(prepared, run_dir)
            run_and_finish(prepared, options, ending, save_state)
