"""`dgs explain`: why the plan looks as it does."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dgs.cli.options import AsJson, Debug, OptimizerName, PlanFrom, PlanPath, SetValues, given_by_flags
from dgs.cli.plan import Format, Shape, figures, rendered
from dgs.cli.reporting import reporting

if TYPE_CHECKING:
    from dgs.api.preparing import Prepared

Graph = Annotated[
    bool, typer.Option("--dependence", help="Draw the dependence graph instead (mermaid or dot).")
]


def explain(
    plan_path: PlanPath,
    *,
    optimizer: OptimizerName = None,
    plan_from: PlanFrom = None,
    set_values: SetValues = None,
    shape: Shape = Format.TEXT,
    dependence: Graph = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Print the plan tree, and why each tag is where it is."""
    with reporting(as_json=as_json, debug=debug):
        from dgs.api.preparing import from_file, prepare

        given = given_by_flags(set_values, plan_from, optimizer__name=optimizer)
        prepared = prepare(from_file(plan_path, given))
        shape = Format.JSON if as_json else shape
        print(_dependence(prepared, shape) if dependence else _explained(prepared, shape))


def _explained(prepared: Prepared, shape: Format) -> str:
    from dgs.planner.drawing.explain import as_explanation
    from dgs.planner.drawing.explain import explain as reasons

    if shape not in (Format.TEXT, Format.JSON):
        return rendered(prepared, shape)
    found = reasons(prepared.plan, prepared.program, prepared.topology)
    if shape is Format.JSON:
        return json.dumps({**figures(prepared), "tags": [_as_data(one) for one in found]}, default=str)
    return f"{rendered(prepared, shape)}\n\n{as_explanation(found)}".rstrip("\n")


def _dependence(prepared: Prepared, shape: Format) -> str:
    from dgs.errors import UsageError
    from dgs.planner.drawing.dependence_graph import dependence_dot, dependence_mermaid

    draw = {Format.TEXT: dependence_mermaid, Format.MERMAID: dependence_mermaid, Format.DOT: dependence_dot}
    if shape not in draw:
        raise UsageError(message=f"--dependence draws mermaid or dot, not {shape.value}")
    return draw[shape](prepared.program, prepared.topology).rstrip("\n")


def _as_data(explanation: Any) -> dict[str, Any]:
    return {
        name: dict(value) if name in ("because", "waits_for") else value
        for name, value in asdict(explanation).items()
    }
