"""The platform-independence principles that each implementation keeps, with its lines of code (Table 1).

Those of the paper are marked as published. Ours are tried: a program keeps PIP1 if one leaf and four leaves give the same outputs, PIP2 if
another dealing of the streams does, and PIP3 if its module uses public names only.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import dgs
from dgs.bench.fingerprint import Fingerprint, fingerprint
from dgs.model import columns
from experiments.bench import baselines
from experiments.bench.applications import Application, application
from experiments.evaluation.finding import Finding
from experiments.evaluation.published import NODES, PAPER
from experiments.evaluation.scaling import APPS

PARALLEL = frozenset({"depends", "accumulates", "closes", "changes", "reads", "fork", "join", "identity"})
"""The members of a program that parallelism needs."""
FASTER = frozenset({"update_batch", "update_windows"})
PUBLIC = ("dgs", "dgs.keyed", "dgs.monoids", "dgs.vectorised", "dgs.model.columns")
"""The modules that a program may import from; `dgs.monoids` with what is in it."""
WORKERS = (1, 4)
EVENTS = 20_000
HOMES = Path(__file__).resolve().parents[1]
STUDIES = {"outlier-detection": ("outlier_detection", 700, 50), "smart-home": ("smart_home", 200, 60)}
"""Folders of the case studies, with the paper's lines: sequential, and for parallelism."""


def table1() -> Finding:
    """Return Table 1 of the paper with our implementations beside it."""
    rows = [_published(one) for one in PAPER]
    for name in APPS:
        rows += _ours(application(name, events=EVENTS))
    rows += [_study(name, *about) for name, about in STUDIES.items()]
    columns_shown = [
        "app",
        "system",
        "pip1",
        "pip2",
        "pip3",
        "scaling",
        "lines",
        "lines_parallel",
        "lines_vectorised",
    ]
    return Finding(
        "table1", "Principles and lines of code (Table 1)", columns_shown, rows, list(_notes(rows))
    )


def _published(one: Any) -> dict[str, Any]:
    marks = {"pip1": one.pip1, "pip2": one.pip2, "pip3": one.pip3}
    return {"app": one.app, "system": f"{one.system} (paper)", **marks, "scaling": one.scaling}


def _ours(app: Application) -> Iterator[dict[str, Any]]:
    module = sys.modules[type(app.program).__module__]
    yield {
        "app": app.name,
        "system": "dgs",
        "pip1": keeps_parallelism(app),
        "pip2": keeps_partition(app),
        "pip3": keeps_api(Path(str(module.__file__))),
        **lines_of(module, type(app.program)),
    }
    by_hand = inspect.getsource(baselines.BY_HAND[app.name])
    yield {"app": app.name, "system": "NumPy by hand, one core", "lines": code_lines(by_hand)}


def _study(name: str, folder: str, sequential: int, parallel: int) -> dict[str, Any]:
    path = HOMES / folder / "program.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    counts = _counted(tree)
    row = {"app": name, "system": "dgs", "pip3": keeps_api(path)}
    return {**row, **counts, "paper_lines": sequential, "paper_lines_parallel": parallel}


def keeps_parallelism(app: Application) -> bool:
    """Whether any number of workers gives the outputs of the sequential program, without a change of the program."""
    return all(_outputs(app, app.streams, leaves) == app.expected.fingerprint for leaves in WORKERS)


def keeps_partition(app: Application) -> bool:
    """Whether the outputs stay the same if each event of the dense streams comes by the next dense stream."""
    first, *dense = app.streams
    moved = {name: app.streams[dense[number - 1]] for number, name in enumerate(dense)}
    renamed = {
        name: [
            dgs.EventBatch(name, 1 + number, one.ts, one.seq, one.tags, one.codes, one.payload)
            for one in moved[name]
        ]
        for number, name in enumerate(dense)
    }
    return _outputs(app, {first: app.streams[first], **renamed}, max(WORKERS)) == app.expected.fingerprint


def _outputs(app: Application, streams: Mapping[str, Any], leaves: int) -> Fingerprint:
    settings = {"optimizer.name": "greedy", "optimizer.max_leaves": leaves}
    run = dgs.run(app.program, streams={**streams}, runtime="local", settings=settings)
    return fingerprint([columns.to_list(run.outputs)])


def keeps_api(path: Path) -> bool:
    """Whether a module imports only what programs may use: public names of dgs, and packages outside of it."""
    return not list(_private_imports(ast.parse(path.read_text(encoding="utf-8"))))


def _private_imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        ours = [name for name in names if name.split(".")[0] == "dgs"]
        if ours and not any(name in PUBLIC or name.startswith("dgs.monoids.") for name in ours):
            yield ours[0]


def lines_of(module: ModuleType, program: type) -> dict[str, int]:
    """Return the lines of a program's module: all, those for parallelism, and those of its vectorised methods."""
    tree = ast.parse(inspect.getsource(module))
    tree.body = [
        node for node in tree.body if not isinstance(node, ast.ClassDef) or node.name == program.__name__
    ]
    return _counted(tree)


def _counted(tree: ast.Module) -> dict[str, int]:
    kinds: Counter[str] = Counter()
    for node in tree.body:
        for part in node.body if isinstance(node, ast.ClassDef) else [node]:
            kinds[_kind(part)] += _statement_lines(part)
        kinds["other"] += isinstance(node, ast.ClassDef)
    return {"lines": kinds.total(), "lines_parallel": kinds["parallel"], "lines_vectorised": kinds["faster"]}


def _kind(node: ast.AST) -> str:
    names = {getattr(node, "name", None)}
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = {target.id for target in targets if isinstance(target, ast.Name)}
    return "parallel" if names & PARALLEL else "faster" if names & FASTER else "other"


def code_lines(source: str) -> int:
    """Return the lines of code, without blank lines, comments and docstrings.

    >>> code_lines("x = 1  # one") + code_lines("# two")
    1
    """
    return sum(map(_statement_lines, ast.parse(dedent(source)).body))


def _statement_lines(node: ast.AST) -> int:
    """Return the lines of a statement with code on them."""
    found: set[int] = set()
    for part in ast.walk(node):
        if not isinstance(part, (ast.stmt, ast.expr)) or _is_text(part):
            continue
        found.update((part.lineno, part.end_lineno or part.lineno))
        found.update(range(part.lineno, (part.end_lineno or 0) + 1) if isinstance(part, ast.expr) else ())
    return len(found)


def _is_text(node: ast.AST) -> bool:
    value = node.value if isinstance(node, ast.Expr) else node
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _notes(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    ours = [row for row in rows if row["system"] == "dgs"]
    parts = ", ".join(f"{row['app']} {row['lines_parallel']} of {row['lines']}" for row in ours)
    yield f"Lines for parallelism: {parts}"
    for row in ours:
        if "paper_lines" in row:
            yield f"{row['app']}: the paper has about {row['paper_lines']} lines, and {row['paper_lines_parallel']} for parallelism"
    yield f"Scaling is the published one on {NODES} nodes; ours is in figure8"
