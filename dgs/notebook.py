"""Notebooks: plans as pictures, and the progress of a run in its cell.

>>> from dgs.model.impl_tags import ImplTagSet
>>> from dgs.planner.plan import Plan, PlanNode
>>> plan_html(Plan(PlanNode("w0", ImplTagSet()))).count("plan of 1 worker")
1
"""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dgs.workers.observing.figures import RunFigures
from dgs.workers.observing.progress_line import Progressing
from dgs.workers.runtime.job import Caller

if TYPE_CHECKING:
    from dgs.planner.plan import Plan


def plan_html(plan: Plan) -> str:
    """Return a plan as a picture of its tree. It is an image, so its styles stay inside."""
    from dgs.planner.drawing.svg import as_svg

    data = b64encode(as_svg(plan).encode()).decode()
    said = f"plan of {len(plan)} worker{'' if len(plan) == 1 else 's'}"
    picture = (
        f'<img src="data:image/svg+xml;base64,{data}" alt="{said}" style="max-width: none; background: #fff">'
    )
    return f'<div style="overflow: auto; max-height: 30em">{picture}</div>'


def caller_in_a_cell() -> Caller:
    """Return the callbacks of a run: in a cell of a notebook, progress is one line that stays in place."""
    shell = _kernel()
    if shell is None:
        return Caller()
    formatter = shell.display_formatter.formatters["text/html"]
    formatter.for_type_by_name("dgs.planner.plan", "Plan", plan_html)
    return Caller(progress=_progress())


def _progress() -> Callable[[RunFigures], None]:
    from IPython.display import display

    progressing = Progressing()
    handle: Any = None

    def show(figures: RunFigures) -> None:
        nonlocal handle
        progressing.add(figures)
        shown = {"text/plain": progressing.line()}
        if handle is None:
            handle = display(shown, raw=True, display_id=True)  # type: ignore[no-untyped-call]  # IPython's
        else:
            handle.update(shown, raw=True)

    return show


def _kernel() -> Any:
    """Return the shell of the notebook that this code runs in, None outside of one."""
    known = sys.modules.get("IPython")
    shell = None if known is None else known.get_ipython()
    return shell if hasattr(shell, "kernel") else None
