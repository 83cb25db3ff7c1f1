"""Small projects for tests of the command line: sums of values between barriers, with a plan file of two value streams.

>>> print(sums_plan(payload="amount").splitlines()[-1])
    payload: amount
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import indent

_PROGRAM = '''\
"""Sums of values between barriers."""
{imports}import dgs

VALUE, BARRIER = dgs.kind("value"), dgs.kind("barrier")


class Sums(dgs.Program):
    depends = dgs.Dependence((BARRIER, BARRIER, dgs.ALWAYS), (BARRIER, VALUE, dgs.ALWAYS))
{making}
    def init(self):
        return 0

    def update(self, state, event, emit):
        if event.tag.kind == VALUE:
{on_value}
        emit({total})
        return 0

    def fork(self, state, left, right):
        return state, {right}

    def join(self, left, right):
        return left + right
'''
_MAKING = """
    def __init__(self, {name}={default}):
        self.{name} = {name}
"""
_PLAN = """\
version: 1
name: sums
program: {{ref: "program.py:Sums"{arguments}}}
streams:
  - id: barriers
    tags: {{kind: barrier}}
    source: {{csv: {{path: barriers.csv}}}}
  - id: left
    tags: {{kind: value}}
    source: {{csv: {{path: {left}}}}}
    payload: {payload}
  - id: right
    tags: {{kind: value}}
    source: {{csv: {{path: {right}}}}}
    payload: {payload}
"""


def sums_program(
    *,
    on_value: str,
    total: str = "state",
    argument: tuple[str, int] | None = None,
    right: str = "0",
    imports: str = "",
) -> str:
    """Return program.py. `on_value`: what a value does; `total`: what a barrier emits; `argument`: name and default of the program's own; `right`: what the right side of a fork gets."""
    making = "" if argument is None else _MAKING.format(name=argument[0], default=argument[1])
    lines = indent(on_value, " " * 12)
    return _PROGRAM.format(imports=imports, making=making, on_value=lines, total=total, right=right)


def sums_plan(*, payload: str, left: str = "left.csv", right: str = "right.csv", arguments: str = "") -> str:
    """Return plan.yaml up to the last stream, to which tests append further keys or sections."""
    return _PLAN.format(payload=payload, left=left, right=right, arguments=arguments)


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write files by name."""
    for name, text in files.items():
        (folder / name).write_text(text)
