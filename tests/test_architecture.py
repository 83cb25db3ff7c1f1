"""The rules of the code base that no linter checks: imports between rooms, pure folders, forbidden constructs.

Every rule is a function from a module's syntax tree to its findings. Each is also tested on code that breaks it.
"""

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("dgs", "planner", "workers", "spark_bridge")

FLOORS = [
    ("dgs/__init__.py",),
    ("dgs/errors",),
    ("dgs/codec",),
    ("dgs/model",),
    ("dgs/vectorised.py", "dgs/frames", "dgs/own_folders.py"),
    ("dgs/semantics", "dgs/keyed.py", "dgs/monoids", "dgs/compiled"),
    ("dgs/flow",),
    ("dgs/job/private_files.py",),
    ("dgs/named_files.py",),
    ("dgs/query", "dgs/pico"),
    ("dgs/job",),
    ("planner",),
    ("workers/__init__.py",),
    ("workers/observing",),
    ("workers/protocol", "workers/storage"),
    ("workers/recovery", "workers/transport", "workers/event_log"),
    ("workers/sources", "workers/sinks", "workers/checkpoints"),
    ("workers/runtime", "workers/trial"),
    ("workers/ray_runtime", "workers/simulated", "workers/virtual"),
    ("spark_bridge/data_source",),
    ("spark_bridge/session",),
    ("spark_bridge/ingest", "spark_bridge/batch", "spark_bridge/queries"),
    ("spark_bridge/tables",),
    ("spark_bridge",),
    ("dgs/notebook.py",),
    ("dgs/observe",),
    ("dgs/view",),
    ("dgs/api",),
    ("dgs/check", "dgs/bench", "dgs/connectors.py"),
    ("dgs/testing",),
    ("dgs/cli",),
    ("dgs/__main__.py",),
    ("experiments",),
]
"""Rooms from the ground up; the longest prefix of a path is its room. An import goes down, or stays in its room."""

WALL_CALLS = {
    "time.time",
    "time.time_ns",
    "datetime.now",
    "datetime.utcnow",
    "dt.datetime.now",
    "datetime.datetime.now",
}
WALL_CLOCK = {
    "dgs/api/steering.py": "a name for a file",
    "dgs/check/elsewhere/shifted_clock.py": "moves it, to see whether a program asks for it",
    "spark_bridge/tables/checkpoint_table.py": "when a checkpoint was made, for people",
    "workers/checkpoints/directory_store.py": "when a checkpoint was made, for people",
    "workers/runtime/control.py": "a name for a file",
    "workers/ray_runtime/cluster.py": "the age of directories that killed processes have left",
    "workers/runtime/process.py": "where the clock begins that does not jump",
    "workers/sources/rows.py": "heartbeats of streams whose times are those of the world",
}
"""Modules that read the time of day, and why. All others measure intervals, by `time.monotonic` or `process.now`."""

HOMES = {
    "narwhals": re.compile(r"dgs/frames/"),
    "ray": re.compile(r"workers/ray_runtime/"),
    "zmq": re.compile(r"workers/transport/zeromq\.py"),
    "msgpack": re.compile(r"dgs/codec/"),
    "ruamel": re.compile(r"dgs/job/document\.py"),
    "pyspark": re.compile(r"spark_bridge/"),
    "py4j": re.compile(r"spark_bridge/"),
    "hypothesis": re.compile(r"dgs/(check|testing)/"),
    "duckdb": re.compile(r"dgs/query/duck\.py"),
    "lark": re.compile(r"dgs/query/"),
    "sqlglot": re.compile(r"dgs/query/"),
    "llvmlite": re.compile(r"dgs/compiled/machine\.py"),
    "fcntl": re.compile(
        r"workers/(storage/|transport/shared_memory\.py)|dgs/(compiled/loop_files|own_folders)\.py"
    ),
    "prometheus_client": re.compile(r"workers/observing/metrics\.py"),
    "yaml": re.compile(r"(?!)"),
}
"""The only modules that may import a package. `fcntl`: locks, and seals of files in memory."""

FSYNC = re.compile(r"workers/storage/")
"""The modules that make files durable."""

WIDE = {
    "dgs/cli": (30, "one module a verb"),
    "workers/simulated": (24, "a world whose parts all know each other: every way to split it made a circle"),
}
"""Folders that may have more than 16 modules, how many, and why."""

SAME_NAME = frozenset({"__init__", "__main__", "contract", "opening", "program", "relation"})
"""Module names that occur in several folders. Any other name occurs once, outside of these folders:"""

NAMED_AFTER_OTHERS = {
    "dgs/cli": "a module is named as its verb",
    "dgs/check/laws": "a module is named as its law",
    "workers/simulated": "a module is named as what it stands in for",
}

PURE = ("workers/protocol/", "workers/recovery/")
"""State machines: to replay a seed they must have no clock, no randomness, no threads and no order of sets."""

IMPURE = frozenset(
    [
        "asyncio",
        "concurrent",
        "datetime",
        "multiprocessing",
        "os",
        "queue",
        "random",
        "ray",
        "secrets",
        "select",
        "socket",
        "threading",
        "time",
        "uuid",
    ]
)
UNSAFE_MODULES = frozenset(["pickle", "marshal", "shelve", "dill", "cloudpickle"])
UNSAFE_CALLS = frozenset(["eval", "exec", "__import__", "yaml.load", "os.system", "os.popen"])
GENERATED = {
    (
        "dgs/flow/batches/fused.py",
        "exec",
    ): "a loop whose text follows from the kinds of a flow's steps, never from data",
    ("dgs/compiled/python_loops.py", "exec"): "a loop whose text follows from an update, never from data",
    (
        "dgs/compiled/lowering/python_values.py",
        "exec",
    ): "functions whose text follows from a type, never from data",
    ("dgs/query/pig/pig_python.py", "exec"): "functions that a script defines: the user's own program",
}
"""Calls that look unsafe, and why they are safe."""

PUBLIC = [
    "ALWAYS",
    "ANY",
    "SAME_KEY",
    "Dependence",
    "DgsError",
    "Emit",
    "EmitBatch",
    "Event",
    "EventBatch",
    "ForkJoin",
    "Heartbeat",
    "ImplTag",
    "Kind",
    "OrderKey",
    "Program",
    "Run",
    "StateType",
    "Tag",
    "TagSet",
    "check",
    "kind",
    "query",
    "read_state",
    "replan",
    "resume",
    "run",
    "stop",
    "stream",
]


def file_of(module):
    """Return the path of a module of ours, by its dotted name; None if it is none."""
    parts = module.split(".")
    if parts[0] == "dgs" and len(parts) > 1 and parts[1] in PACKAGES[1:]:
        parts = parts[1:]
    base = ROOT.joinpath(*parts)
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return str(path.relative_to(ROOT))
    return None


def imports(tree):
    """Yield all imports of a tree, also lazy ones and those for types only: (module, name or None)."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (("." * node.level + (node.module or ""), alias.name) for alias in node.names)


def packages_of(tree):
    return [module.partition(".")[0] for module, _ in imports(tree)]


def arrows(tree):
    """Yield the paths of our own modules that a tree imports, or names in a text as `module` or `module:name`."""
    for module, name in imports(tree):
        if found := (name and file_of(f"{module}.{name}")) or file_of(module):
            yield found
    for node in nodes_of(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            dotted = node.value.partition(":")[0]
            if dotted.startswith("dgs.") and (found := file_of(dotted)):
                yield found


@cache
def room_of(path):
    """Return the floor of a path's room and the room."""
    rooms = [(len(room), floor, room) for floor, rooms in enumerate(FLOORS) for room in rooms]
    fitting = [found for found in rooms if path == found[2] or path.startswith(f"{found[2]}/")]
    assert fitting, f"{path} is in no room: give it a place in FLOORS"
    return max(fitting)[1:]


def upward(path, tree):
    """Find imports that do not go down."""
    floor, room = room_of(path)
    for target in arrows(without_face(path, tree)):
        at, other = room_of(target)
        if at > floor or (at == floor and other != room):
            yield f"{path} imports {target}, which is not below it"


def without_face(path, tree):
    """Return a tree without the table of the public names of `dgs`, and without its twin for type checkers.

    The table has names that are looked up on first use; the twin is never run. A test compares the two.
    """
    return ast.Module([node for node in tree.body if path != "dgs/__init__.py" or not is_face(node)], [])


def is_face(node):
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return not node.orelse and all(isinstance(one, ast.ImportFrom) for one in node.body)
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOME"


def relative(path, tree):
    return (f"{path} imports {module}" for module, _ in imports(tree) if module.startswith("."))


def under_an_old_name(path, tree):
    """Find imports of a layer as a package of its own: in site-packages that name is the user's."""
    return (f"{path} imports {module}" for module in packages_of(tree) if module in PACKAGES[1:])


def targets(path, tree):
    return set(arrows(without_face(path, tree))) - {path}


def circles(graph):
    """Yield the circles of a graph, a dictionary of sets."""
    return (sorted(part) for part in nx.strongly_connected_components(nx.DiGraph(graph)) if len(part) > 1)


def away_from_home(path, tree):
    for package in packages_of(tree):
        home = HOMES.get(package)
        if home is not None and not home.match(path):
            yield f"{path} imports {package}"
    for node in nodes_of(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "os.fsync" and not FSYNC.match(path):
            yield f"{path}:{node.lineno} calls fsync"
    if ("os", "fsync") in imports(tree) and not FSYNC.match(path):
        yield f"{path} imports fsync"


def impure(path, tree):
    for package in packages_of(tree):
        if package in IMPURE:
            yield f"{path} imports {package}"
    for node in nodes_of(tree):
        iterated = node.iter if isinstance(node, (ast.For, ast.comprehension)) else None
        if iterated is not None and is_set(iterated):
            yield f"{path}:{iterated.lineno} iterates over a set: {ast.unparse(iterated)}"
        if isinstance(node, ast.Call) and name_of(node.func) in (
            "list",
            "tuple",
            "iter",
            "enumerate",
            "next",
        ):
            yield from (f"{path}:{node.lineno} orders a set" for argument in node.args if is_set(argument))
        if isinstance(node, ast.Call) and name_of(node.func) in ("id", "hash"):
            yield f"{path}:{node.lineno} calls {ast.unparse(node)}, which differs between processes"


def is_set(node):
    if isinstance(node, ast.BinOp):
        return is_set(node.left) or is_set(node.right)
    made = isinstance(node, ast.Call) and name_of(node.func) in ("set", "frozenset")
    return made or isinstance(node, (ast.Set, ast.SetComp))


def set_by_others(path, tree):
    """Find reads of the machine's clock, which others may change while we measure intervals."""
    if path in WALL_CLOCK:
        return
    for node in nodes_of(tree):
        if name_of(node) in WALL_CALLS:
            yield f"{path}:{node.lineno} asks {ast.unparse(node)}"
    yield from (
        f"{path} imports {name} of time" for name in ("time", "time_ns") if ("time", name) in imports(tree)
    )


def unsafe(path, tree):
    for package in packages_of(tree):
        if package in UNSAFE_MODULES:
            yield f"{path} imports {package}"
    for node in nodes_of(tree):
        if not isinstance(node, ast.Call):
            continue
        if name_of(node.func) in UNSAFE_CALLS and (path, name_of(node.func)) not in GENERATED:
            yield f"{path}:{node.lineno} calls {ast.unparse(node.func)}"
        if any(k.arg == "shell" and ast.unparse(k.value) != "False" for k in node.keywords):
            yield f"{path}:{node.lineno} runs a shell"


def asserting(path, tree):
    return (f"{path}:{node.lineno} asserts" for node in nodes_of(tree) if isinstance(node, ast.Assert))


def name_of(function):
    """Return a dotted name, "" for other expressions."""
    if isinstance(function, ast.Name):
        return function.id
    base = name_of(function.value) if isinstance(function, ast.Attribute) else ""
    return f"{base}.{function.attr}" if base else ""


@cache
def nodes_of(tree):
    """Return all nodes of a syntax tree. All rules share them."""
    return tuple(ast.walk(tree))


@cache
def modules_of(package):
    """Return the paths and syntax trees of a package. All rules share them."""
    paths = sorted((ROOT / package).rglob("*.py"))
    return [(str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))) for path in paths]


@pytest.fixture(scope="module", autouse=True)
def trees_are_forgotten():
    """Drop the syntax trees after these tests: each full garbage collection would visit their million nodes."""
    yield
    modules_of.cache_clear()
    nodes_of.cache_clear()


def modules(*packages):
    return (module for package in packages for module in modules_of(package))


def findings(rule, *packages):
    return [text for path, tree in modules(*packages) for text in rule(path, tree)]


def test_imports_go_down():
    assert not findings(upward, *PACKAGES, "experiments")


def test_no_module_imports_in_a_circle():
    paths = {path for path, _ in modules(*PACKAGES)}
    assert not list(circles({path: targets(path, tree) & paths for path, tree in modules(*PACKAGES)}))


@pytest.mark.parametrize("rule", [relative, under_an_old_name])
def test_imports_name_modules_in_one_way(rule):
    assert not findings(rule, *PACKAGES, "experiments", "tests")


def test_third_party_packages_stay_in_their_one_place():
    assert not findings(away_from_home, *PACKAGES)


def test_state_machines_have_no_clock_no_randomness_no_threads_and_no_order_of_sets():
    pure = [(path, tree) for path, tree in modules("workers") if path.startswith(PURE)]
    assert len(pure) > 16
    assert not [text for path, tree in pure for text in impure(path, tree)]


def test_no_folder_is_a_drawer():
    """A folder that grows too large to remember is divided by the purpose of its modules."""
    folders = Counter(str(Path(path).parent) for path, _ in modules(*PACKAGES))
    for folder, (most, _reason) in WIDE.items():
        assert 16 < folders.pop(folder) - 1 <= most
    assert not {folder: count for folder, count in folders.items() if count - 1 > 16}


def test_a_name_of_a_module_occurs_once():
    paths = (Path(path) for path, _ in modules(*PACKAGES))
    names = Counter(path.stem for path in paths if str(path.parent) not in NAMED_AFTER_OTHERS)
    assert not {name for name, count in names.items() if count > 1} - SAME_NAME


def test_intervals_are_measured_by_clocks_that_do_not_jump():
    assert not findings(set_by_others, *PACKAGES)


def test_modules_that_ask_for_the_time_of_day_still_do():
    found = {
        path for path, tree in modules(*PACKAGES) for node in nodes_of(tree) if name_of(node) in WALL_CALLS
    }
    assert found == set(WALL_CLOCK)


def test_no_code_runs_data():
    assert not findings(unsafe, *PACKAGES)


def test_packages_do_not_assert():
    """Invariants raise InternalError, which `python -O` does not remove."""
    assert not findings(asserting, *PACKAGES)


BAD = [
    (upward, "dgs/model/tags.py", "import dgs.planner.plan"),
    (upward, "dgs/model/tags.py", "def f():\n    from dgs.workers.protocol import host"),
    (upward, "dgs/job/loading.py", "from dgs.api.running import execute"),
    (upward, "dgs/check/report.py", "from dgs import cli"),
    (upward, "dgs/check/report.py", "import dgs.testing"),
    (upward, "dgs/__init__.py", "from dgs.model.tags import Tag"),
    (upward, "dgs/__init__.py", "if TYPE_CHECKING:\n    import dgs.model.tags"),
    (upward, "dgs/__init__.py", "if not TYPE_CHECKING:\n    from dgs.model.tags import Tag"),
    (
        upward,
        "dgs/__init__.py",
        "if TYPE_CHECKING:\n    from typing import Any\nelse:\n    from dgs.model.tags import Tag",
    ),
    (upward, "dgs/errors/families.py", "if TYPE_CHECKING:\n    from dgs.model.tags import Tag"),
    (upward, "planner/plan.py", "if TYPE_CHECKING:\n    import dgs.workers.runtime.job"),
    (upward, "workers/sources/readers/csv.py", "import_module('dgs.spark_bridge.session.session')"),
    (upward, "workers/runtime/local.py", "RUN = 'dgs.api.running:execute'"),
    (upward, "workers/sinks/opening.py", "from dgs.workers.sources.contract import EventSource"),
    (upward, "spark_bridge/session/java.py", "from dgs.spark_bridge.ingest import feed"),
    (relative, "workers/runtime/local.py", "from . import job"),
    (relative, "workers/runtime/local.py", "from ..protocol.host import Host"),
    (under_an_old_name, "workers/runtime/local.py", "from workers.protocol import host"),
    (under_an_old_name, "experiments/workload.py", "def f():\n    import planner"),
    (away_from_home, "planner/plan.py", "import msgpack"),
    (away_from_home, "workers/protocol/host.py", "def f():\n    import ray"),
    (away_from_home, "dgs/job/schema.py", "from ruamel.yaml import YAML"),
    (away_from_home, "dgs/job/document.py", "import yaml"),
    (away_from_home, "workers/event_log/writer.py", "os.fsync(file)"),
    (away_from_home, "workers/event_log/writer.py", "from os import fsync"),
    (away_from_home, "workers/sinks/files/file_sink.py", "import fcntl"),
    (impure, "workers/protocol/host.py", "import time"),
    (impure, "workers/protocol/host.py", "from random import choice"),
    (impure, "workers/protocol/host.py", "for x in {1, 2}: pass"),
    (impure, "workers/protocol/host.py", "[x for x in set(a) - set(b)]"),
    (impure, "workers/protocol/host.py", "list({x for x in y})"),
    (impure, "workers/protocol/host.py", "tuple(frozenset(a))"),
    (impure, "workers/protocol/host.py", "d[id(x)] = 1"),
    (set_by_others, "workers/runtime/local.py", "began = time.time()"),
    (set_by_others, "workers/runtime/local.py", "def f(clock=time.time_ns): pass"),
    (set_by_others, "workers/runtime/local.py", "from time import time"),
    (set_by_others, "spark_bridge/session/java.py", "datetime.now(UTC)"),
    (unsafe, "dgs/codec/trees.py", "import pickle"),
    (unsafe, "dgs/codec/trees.py", "from marshal import loads"),
    (unsafe, "dgs/codec/trees.py", "eval('1')"),
    (unsafe, "dgs/codec/trees.py", "yaml.load(x)"),
    (unsafe, "dgs/codec/trees.py", "subprocess.run(x, shell=True)"),
    (asserting, "dgs/codec/trees.py", "def f():\n    assert x"),
]
GOOD = [
    (upward, "dgs/api/running.py", "def f():\n    from dgs.workers.protocol import host"),
    (upward, "dgs/__init__.py", "_HOME = {'Tag': 'dgs.model.tags'}"),
    (upward, "dgs/__init__.py", "if TYPE_CHECKING:\n    from dgs.model.tags import Tag"),
    (upward, "workers/protocol/leaf.py", "from dgs.workers.protocol.worker import Worker"),
    (upward, "experiments/flights/program.py", "import dgs, dgs.workers"),
    (away_from_home, "workers/ray_runtime/actor.py", "import ray"),
    (away_from_home, "workers/storage/disk.py", "os.fsync(file)"),
    (impure, "workers/protocol/host.py", "for x in sorted({1, 2}): pass"),
    (impure, "workers/protocol/host.py", "a = set(b); c in a"),
    (set_by_others, "workers/runtime/local.py", "began = time.monotonic()"),
    (unsafe, "dgs/codec/trees.py", "subprocess.run(x, shell=False)"),
]


def test_a_circle_is_found():
    assert list(circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})) == [["a", "b", "c"]]
    assert not list(circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}))


@pytest.mark.parametrize(("rule", "path", "code"), BAD)
def test_rule_finds_violations(rule, path, code):
    assert list(rule(path, ast.parse(code)))


@pytest.mark.parametrize(("rule", "path", "code"), GOOD)
def test_rule_accepts_correct_code(rule, path, code):
    assert not list(rule(path, ast.parse(code)))


def python(script):
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return done.stdout.split()


def test_import_dgs_loads_nothing_heavy():
    heavy = {
        "numpy",
        "pyarrow",
        "ray",
        "pyspark",
        "pydantic",
        "msgpack",
        "pandas",
        "typer",
        "ruamel",
    }
    loaded = python("import sys, dgs; print(*sys.modules)")
    assert "dgs" in loaded
    assert not heavy & set(loaded)


def test_import_of_the_model_needs_neither_planner_nor_runtimes():
    loaded = python(
        "import sys, dgs\nfor name in dgs.__all__:\n    name in ('Run', 'check', 'query', 'replan', 'resume', 'run', 'stop') or getattr(dgs, name)\n"
        "print(*sys.modules)"
    )
    assert not {"ray", "pyspark", "pydantic"} & set(loaded)
    assert not {"dgs.planner", "dgs.workers", "dgs.spark_bridge"} & set(loaded)


def test_a_local_run_of_a_program_loads_neither_other_runtimes_nor_flows():
    program = "ProgramConfig(ref='experiments.event_window.program:EventWindow'), Path()"
    loaded = python(
        "import sys, dgs.api, dgs.workers.runtime.local\nfrom pathlib import Path\nfrom dgs.job.schema import ProgramConfig\n"
        f"from dgs.job.loading import load_program\nload_program({program})\nprint(*sys.modules)"
    )
    assert "experiments.event_window.program" in loaded
    assert not {"ray", "pyspark", "networkx", "asyncio", "dgs.flow", "dgs.pico"} & set(loaded)


def test_import_of_the_log_writer_loads_only_what_it_needs():
    """Each of the five Python processes that Spark starts for a first query pays for it."""
    loaded = python("import sys, dgs.spark_bridge.data_source.log_writer\nprint(*sys.modules)")
    assert "dgs.spark_bridge.data_source.log_writer" in loaded
    assert not {"ray", "pydantic", "pandas", "typer", "ruamel"} & set(loaded)


def test_public_names_are_exactly_these():
    import dgs

    assert sorted(dgs.__all__) == sorted(PUBLIC)
    for name in PUBLIC:
        assert getattr(dgs, name) is not None
        assert name in dir(dgs)
    with pytest.raises(AttributeError):
        dgs.nothing  # noqa: B018


def test_type_checkers_see_the_public_names_at_their_homes():
    """Otherwise a type checker would see other names than a running program."""
    import dgs

    face = dict(modules("dgs"))["dgs/__init__.py"].body
    (twin,) = (node for node in face if isinstance(node, ast.If) and is_face(node))
    seen = {alias.asname or alias.name: node.module for node in twin.body for alias in node.names}
    assert seen == dgs._HOME
    assert sorted(dgs.__all__) == sorted(dgs._HOME)


def test_every_module_says_what_it_is():
    silent = [
        path for path, tree in modules(*PACKAGES) if not (ast.get_docstring(tree) or "").strip() and tree.body
    ]
    assert not silent


def test_no_module_grows_too_large():
    """A module has one idea; split larger ones."""
    large = {
        path: n for path, _ in modules(*PACKAGES) if (n := len((ROOT / path).read_text().splitlines())) > 400
    }
    assert not large
