"""dgs as a wheel: one name in site-packages, and users' modules may have the names of its layers."""

import json
from concurrent.futures import ThreadPoolExecutor
from email.parser import Parser
from pathlib import PurePosixPath
from zipfile import ZipFile

import pytest

from dgs.cli.init import TEMPLATES
from tests.installed import ROOT, built_sdist, built_wheel, copied_sources, names_in, new_environment
from tests.selection import rest_is_slow

LAYERS = ("planner", "workers", "spark_bridge")
"""The folders at the top of the checkout: packages of `dgs` in the wheel, and names of a user's modules here."""

WORKERS = "SCALE = 2\n"
PLANNER = """\
from workers import SCALE


def scaled(value):
    return SCALE * value
"""
SPARK_BRIDGE = """\
from dataclasses import dataclass

from dgs import codec


@codec.register(name="project.Total")
@dataclass
class Total:
    number: int
"""
PROGRAM = """\
import dgs
from planner import scaled
from spark_bridge import Total

VALUE, BARRIER = dgs.kind("value"), dgs.kind("barrier")


class Sums(dgs.Program[Total, int]):
    depends = dgs.Dependence((BARRIER, BARRIER, dgs.ALWAYS), (BARRIER, VALUE, dgs.ALWAYS))

    def init(self):
        return Total(0)

    def update(self, state, event, emit):
        if event.tag.kind == VALUE:
            return Total(state.number + scaled(event.payload))
        import workers  # not before an event comes: in the process that runs the worker

        emit(state.number + workers.SCALE)
        return Total(0)

    def fork(self, state, left, right):
        return state, Total(0)

    def join(self, left, right):
        return Total(left.number + right.number)
"""
PLAN = """\
version: 1
name: sums
program: {ref: "program.py:Sums"}
streams:
  - id: barriers
    tags: {kind: barrier}
    source: {csv: {path: barriers.csv}}
  - id: left
    tags: {kind: value}
    source: {csv: {path: left.csv}}
    payload: amount
  - id: right
    tags: {kind: value}
    source: {csv: {path: right.csv}}
    payload: amount
optimizer: {max_leaves: 2, name: greedy}
"""
RUN_IT = """
if __name__ == "__main__":
    import json
    import sys

    streams = {
        "barriers": [(BARRIER(), 4, None)],
        "left": [(VALUE(), 1, 10), (VALUE(), 2, 20)],
        "right": [(VALUE(), 3, 100)],
    }
    settings = {"runtime.hosts": 2, "optimizer.name": "greedy"} if sys.argv[1] == "ray" else {}
    run = dgs.run(Sums, streams=streams, runtime=sys.argv[1], settings=settings, verify=True)
    print(json.dumps({**run.report, "found": run.outputs}))
"""
PROJECT = {
    "workers.py": WORKERS,
    "planner.py": PLANNER,
    "spark_bridge.py": SPARK_BRIDGE,
    "program.py": PROGRAM,
    "plan.yaml": PLAN,
    "defines.py": PROGRAM + RUN_IT,
    "imports.py": f"from program import BARRIER, VALUE, Sums, dgs\n{RUN_IT}",
    "barriers.csv": "ts\n4\n",
    "left.csv": "ts,amount\n1,10\n2,20\n",
    "right.csv": "ts,amount\n3,100\n",
}
RESULT = 2 * (10 + 20 + 100) + 2
"""The outputs of the sequential program, by hand."""

IMPORT_EVERYTHING = """\
import importlib, pkgutil, sys

import dgs

names = [module.name for module in pkgutil.walk_packages(dgs.__path__, "dgs.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
print(len(names), *sorted(set(sys.modules) & {"planner", "workers", "spark_bridge"}))
"""

RUNTIMES = ["local", pytest.param("ray", marks=pytest.mark.ray)]


@pytest.fixture
def project(tmp_path):
    """A user's project, whose modules have the names of our layers."""
    folder = tmp_path / "project"
    folder.mkdir()
    for name, text in PROJECT.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    return copied_sources(tmp_path_factory.mktemp("copied") / "sources")


def modules_of_the_checkout():
    """Return the files of the packages by their names in a wheel."""
    for package in ("dgs", *LAYERS):
        for path in (ROOT / package).rglob("*.py"):  # does not follow the links from dgs to the layers
            name = PurePosixPath(path.relative_to(ROOT))
            yield str(name if package == "dgs" else "dgs" / name)


def test_the_wheel_has_one_name_in_site_packages(wheel):
    tops = {name.partition("/")[0] for name in names_in(wheel)}
    assert tops == {"dgs", "dgs-0.1.0.dist-info"}


def test_the_wheel_has_every_module_and_says_that_it_is_typed(wheel):
    inside = {name for name in names_in(wheel) if name.startswith("dgs/")}
    assert {name for name in inside if name.endswith(".py")} == set(modules_of_the_checkout())
    assert inside >= {"dgs/py.typed", "dgs/view/page.css", "dgs/view/page.js"}


def test_the_wheel_says_its_licence(wheel):
    with ZipFile(wheel) as opened:
        about = Parser().parsestr(opened.read("dgs-0.1.0.dist-info/METADATA").decode())
        licence = opened.read("dgs-0.1.0.dist-info/licenses/LICENSE").decode()
    assert about["License-Expression"] == "Apache-2.0"
    assert about.get_all("License-File") == ["LICENSE"]
    assert licence == (ROOT / "LICENSE").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_source_distribution_builds_the_same_wheel(wheel, sources, tmp_path):
    unpacked = built_sdist(sources, tmp_path)
    assert not any(path.is_symlink() for path in unpacked.rglob("*"))
    assert names_in(built_wheel(unpacked, tmp_path / "again")) == names_in(wheel)


@pytest.mark.slow
def test_pip_installs_a_checkout_as_it_installs_the_wheel(sources, installed, tmp_path):
    from_sources = new_environment(tmp_path / "environment", sources)
    assert modules_in(from_sources) == modules_in(installed)
    done = from_sources.run("dgs", "--version", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def modules_in(environment):
    return sorted(path.relative_to(environment.packages) for path in environment.packages.rglob("*.py"))


def test_no_module_imports_a_layer_under_its_old_name(installed, tmp_path):
    """The import would run a user's module of that name."""
    for layer in LAYERS:
        (tmp_path / f"{layer}.py").write_text(f"raise ImportError('{layer} of the user')\n")
    done = installed.run("python", "-c", IMPORT_EVERYTHING, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    count, *imported = done.stdout.split()
    assert int(count) > 300
    assert not imported


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_plan_file_runs_beside_modules_with_the_names_of_our_layers(runtime, installed, project, tmp_path):
    command = ("dgs", "run", project / "plan.yaml", "--runtime", runtime, "--verify", "--json")
    hosts = ("--hosts", "2") if runtime == "ray" else ()
    done = installed.run(*command, *hosts, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["verified"], report["runtime"]) == (True, runtime)
    files = sorted(project.glob(".dgs/runs/*/outputs/*.jsonl"))
    assert [json.loads(line) for file in files for line in file.read_text().splitlines()] == [RESULT]


@pytest.mark.parametrize("script", rest_is_slow(["defines.py", "imports.py"]))
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_script_runs_beside_modules_with_the_names_of_our_layers(
    runtime, script, installed, project, tmp_path
):
    """Classes of a script are pickled by value, and imported classes by the name of their module."""
    done = installed.run("python", project / script, runtime, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["verified"], report["runtime"], report["found"]) == (True, runtime, [RESULT])


def test_a_program_beside_modules_with_the_names_of_our_layers_is_checked(installed, project, tmp_path):
    """Some laws are checked in another process."""
    command = ("dgs", "check", project / "plan.yaml", "--max-examples", "5")
    done = installed.run(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_folder_of_dgs_init_runs_with_the_wheel_alone(template, installed, tmp_path):
    made = installed.run("dgs", "init", template, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    folder = tmp_path / template
    with ThreadPoolExecutor(1) as beside:
        sent = beside.submit(installed.run, "python", "send.py", cwd=folder) if template == "socket" else None
        ran = installed.run("dgs", "run", cwd=folder)
        assert ran.returncode == 0, ran.stderr
        assert sent is None or sent.result().returncode == 0
    tested = installed.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=folder)
    assert tested.returncode == 0, tested.stdout + tested.stderr
