"""The rules of the whole code base that no linter knows: who imports whom, what is pure, what must not be there.

Every rule is a function from a module's syntax tree to what it finds; each is also shown code that breaks it.
"""

import ast
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = ("dgs", "planner", "workers", "spark_bridge", "experiments")
PACKAGES = LAYERS[:4]

LAZY = re.compile(r"dgs/(cli|api|check)/|dgs/(api|testing)\.py")
"""Where `dgs` may import the layers above it, inside of functions."""

HOMES = {
    "networkx": re.compile(r"planner/"),
    "ray": re.compile(r"workers/ray_\w+\.py"),
    "zmq": re.compile(r"workers/transport_direct\.py"),
    "msgpack": re.compile(r"dgs/codec\w*\.py"),
    "ruamel": re.compile(r"dgs/plan_file\.py"),
    "pyspark": re.compile(r"spark_bridge/"),
    "py4j": re.compile(r"spark_bridge/"),
    "hypothesis": re.compile(r"dgs/(check/|testing\.py)"),
    "yaml": re.compile(r"(?!)"),
}
"""The one place of each third-party package; the others are free."""

PURE = ("workers/protocol/mailbox.py", "workers/protocol/worker.py", "workers/protocol/host.py")
"""State machines: replaying a seed depends on their having no clock, no randomness, no threads and no order of sets."""

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

PUBLIC = [
    "ALWAYS",
    "SAME_KEY",
    "Dependence",
    "DgsError",
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
    "read_state",
    "replan",
    "resume",
    "run",
    "stop",
]


@dataclass(frozen=True)
class Import:
    """A module that is imported; `is_lazy` inside of a function, `is_typing` under TYPE_CHECKING."""

    module: str
    is_lazy: bool
    is_typing: bool

    @property
    def package(self):
        return self.module.partition(".")[0]


def imports(tree, *, is_lazy=False, is_typing=False):
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, is_lazy, is_typing) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield Import(node.module, is_lazy, is_typing)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from imports(node, is_lazy=is_lazy, is_typing=True)
        else:
            inside = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from imports(node, is_lazy=is_lazy or inside, is_typing=is_typing)


def against_the_layers(path, tree):
    layer = LAYERS.index(path.partition("/")[0])
    for found in imports(tree):
        if found.package not in LAYERS or LAYERS.index(found.package) <= layer:
            continue
        if not (LAZY.match(path) and (found.is_lazy or found.is_typing)):
            yield f"{path} imports {found.module}, which is above it"


def away_from_home(path, tree):
    for found in imports(tree):
        home = HOMES.get(found.package)
        if home is not None and not home.match(path):
            yield f"{path} imports {found.module}"


def impure(path, tree):
    for found in imports(tree):
        if found.package in IMPURE:
            yield f"{path} imports {found.module}"
    for node in ast.walk(tree):
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


def unsafe(path, tree):
    for found in imports(tree):
        if found.package in UNSAFE_MODULES:
            yield f"{path} imports {found.module}"
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if name_of(node.func) in UNSAFE_CALLS:
            yield f"{path}:{node.lineno} calls {ast.unparse(node.func)}"
        if any(k.arg == "shell" and ast.unparse(k.value) != "False" for k in node.keywords):
            yield f"{path}:{node.lineno} runs a shell"


def naming_the_bridge(path, tree):
    """Only `dgs/api/bridge.py` reaches for what is above it, by name; others must not do the same behind our back."""
    for node in ast.walk(tree):
        names = (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and not any(map(str.isspace, node.value))
        )
        if names and node.value.startswith("spark_bridge") and path != "dgs/api/bridge.py":
            yield f"{path}:{node.lineno} names {node.value}"


def asserting(path, tree):
    return (f"{path}:{node.lineno} asserts" for node in ast.walk(tree) if isinstance(node, ast.Assert))


def name_of(function):
    return ast.unparse(function) if isinstance(function, (ast.Name, ast.Attribute)) else ""


@cache
def modules_of(package):
    """Return the paths and syntax trees of a package; every rule looks at the same ones."""
    paths = sorted((ROOT / package).rglob("*.py"))
    return [(str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))) for path in paths]


def modules(*packages):
    return (module for package in packages for module in modules_of(package))


def findings(rule, *packages):
    return [text for path, tree in modules(*packages) for text in rule(path, tree)]


def test_imports_follow_the_layers():
    assert not findings(against_the_layers, *LAYERS)


def test_third_party_packages_stay_in_their_one_place():
    assert not findings(away_from_home, *PACKAGES)


@pytest.mark.parametrize("path", PURE)
def test_state_machines_have_no_clock_no_randomness_no_threads_and_no_order_of_sets(path):
    assert not list(impure(path, ast.parse((ROOT / path).read_text(encoding="utf-8"))))


def test_no_code_runs_data():
    assert not findings(unsafe, *PACKAGES)


def test_workers_name_the_bridge_in_one_place():
    assert not findings(naming_the_bridge, "planner", "workers")


def test_packages_do_not_assert():
    """Invariants raise InternalError: they survive `python -O`."""
    assert not findings(asserting, *PACKAGES)


BAD = [
    (against_the_layers, "dgs/model/tags.py", "import dgs.planner.plan"),
    (against_the_layers, "dgs/model/tags.py", "def f():\n    from workers import host"),
    (against_the_layers, "dgs/api/running.py", "from workers import host"),
    (against_the_layers, "planner/plan.py", "if TYPE_CHECKING:\n    import dgs.workers.runtime.job"),
    (against_the_layers, "workers/sources/csv.py", "from spark_bridge import x"),
    (away_from_home, "planner/plan.py", "import msgpack"),
    (away_from_home, "workers/protocol/host.py", "def f():\n    import ray"),
    (away_from_home, "dgs/job/schema.py", "from ruamel.yaml import YAML"),
    (away_from_home, "dgs/job/document.py", "import yaml"),
    (impure, "workers/protocol/host.py", "import time"),
    (impure, "workers/protocol/host.py", "from random import choice"),
    (impure, "workers/protocol/host.py", "for x in {1, 2}: pass"),
    (impure, "workers/protocol/host.py", "[x for x in set(a) - set(b)]"),
    (impure, "workers/protocol/host.py", "list({x for x in y})"),
    (impure, "workers/protocol/host.py", "tuple(frozenset(a))"),
    (impure, "workers/protocol/host.py", "d[id(x)] = 1"),
    (unsafe, "dgs/codec/__init__.py", "import pickle"),
    (unsafe, "dgs/codec/__init__.py", "from marshal import loads"),
    (unsafe, "dgs/codec/__init__.py", "eval('1')"),
    (unsafe, "dgs/codec/__init__.py", "yaml.load(x)"),
    (unsafe, "dgs/codec/__init__.py", "subprocess.run(x, shell=True)"),
    (asserting, "dgs/codec/__init__.py", "def f():\n    assert x"),
    (naming_the_bridge, "workers/runtime/local.py", "import_module('dgs.spark_bridge.batch.driver')"),
]
GOOD = [
    (against_the_layers, "dgs/api/running.py", "def f():\n    from workers import host"),
    (against_the_layers, "dgs/api/running.py", "if TYPE_CHECKING:\n    from workers import host"),
    (against_the_layers, "experiments/flights/program.py", "import dgs, workers"),
    (away_from_home, "workers/ray_runtime/actor.py", "import ray"),
    (impure, "workers/protocol/host.py", "for x in sorted({1, 2}): pass"),
    (impure, "workers/protocol/host.py", "a = set(b); c in a"),
    (unsafe, "dgs/codec/__init__.py", "subprocess.run(x, shell=False)"),
]


@pytest.mark.parametrize(("rule", "path", "code"), BAD)
def test_rule_finds_what_breaks_it(rule, path, code):
    assert list(rule(path, ast.parse(code)))


@pytest.mark.parametrize(("rule", "path", "code"), GOOD)
def test_rule_lets_pass_what_is_allowed(rule, path, code):
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
        "networkx",
        "pydantic",
        "msgpack",
        "pandas",
        "typer",
        "ruamel",
    }
    loaded = python("import sys, dgs; print(*{name.partition('.')[0] for name in sys.modules})")
    assert "dgs" in loaded
    assert not heavy & set(loaded)


def test_import_of_the_model_needs_neither_planner_nor_runtimes():
    loaded = python(
        "import sys, dgs\nfor name in dgs.__all__:\n    name in ('Run', 'check', 'replan', 'resume', 'run', 'stop') or getattr(dgs, name)\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    assert not {"planner", "workers", "spark_bridge", "ray", "pyspark", "networkx", "pydantic"} & set(loaded)


def test_import_of_the_local_runtime_does_not_load_ray():
    loaded = python(
        "import sys, dgs.api, dgs.workers.runtime.local\nprint(*{name.partition('.')[0] for name in sys.modules})"
    )
    assert not {"ray", "pyspark"} & set(loaded)


def test_import_of_the_log_writer_loads_what_it_needs():
    """Each of the five Python processes that Spark starts for a first query pays for it."""
    loaded = python(
        "import sys, dgs.spark_bridge.ingest.log_writer\nprint(*{name.partition('.')[0] for name in sys.modules})"
    )
    assert "spark_bridge" in loaded
    assert not {"ray", "networkx", "pydantic", "pandas", "typer", "ruamel"} & set(loaded)


def test_public_names_are_exactly_these():
    import dgs

    assert sorted(dgs.__all__) == sorted(PUBLIC)
    for name in PUBLIC:
        assert getattr(dgs, name) is not None
        assert name in dir(dgs)
    with pytest.raises(AttributeError):
        dgs.nothing  # noqa: B018


def test_every_module_says_what_it_is():
    silent = [
        path for path, tree in modules(*PACKAGES) if not (ast.get_docstring(tree) or "").strip() and tree.body
    ]
    assert not silent


def test_no_module_grows_too_large():
    """One idea each: beyond this, split it."""
    large = {
        path: n for path, _ in modules(*PACKAGES) if (n := len((ROOT / path).read_text().splitlines())) > 400
    }
    assert not large
