"""Values of environment variables: used everywhere, written and shown nowhere. And the permissions of a run's files."""

import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dgs.errors import PlanFileError
from dgs.errors.hidden_values import forget, hide, masked, masked_data, revealed
from dgs.job import private_files
from dgs.job.document import parse
from dgs.job.private_files import ForeignDirectoryError
from dgs.job.schema import PlanFile
from dgs.job.settings import resolve
from tests.dgs.projects import write_files
from tests.dgs.recovering import wait_until

SECRET = "Xyzzy'\"\\7:%-unmistakable"
OTHER = "another-value-of-today"

PROGRAM = """\
import json
from pathlib import Path

import dgs
from dgs.connectors import Sink, Source

HERE = Path(__file__).parent


def known(password):
    assert password in json.loads((HERE / "valid.json").read_text())
    return password


class Sums(dgs.Program):
    depends = dgs.Dependence((dgs.kind("value"), dgs.kind("value"), dgs.ALWAYS))

    def __init__(self, password):
        self.password = known(password)

    def init(self):
        return 0

    def update(self, state, event, emit):
        if (HERE / "fails").exists() and event.ts == 5:
            raise ValueError(f"no access for {self.password!r} at db://ann:{self.password}@host")
        emit(state + 1)
        return state + 1


def numbers(password, stop):
    known(password)
    yield {"ts": list(range(stop)), "payload": list(range(stop))}


class Table(Source):
    def __init__(self, password):
        self.password = known(password)

    def read(self, after):
        yield {"ts": list(range(after or 0, 9))}, 9

    def describe(self):
        return {"address": f"db://{self.password}@host"}


class Store(Sink):
    def __init__(self, password):
        self.password = known(password)

    def write(self, values, epoch):
        pass

    def stage(self, epoch):
        return None

    def publish(self, staged):
        pass


def heard(outputs, password):
    known(password)
"""
PLAN = """\
version: 1
name: sums
program: {ref: "program.py:Sums", args: {password: "${env:DGS_TEST_SECRET}"}}
streams:
  - id: numbers
    tags: {kind: value}
    source: {generator: {ref: "program.py:numbers", args: {password: "${env:DGS_TEST_SECRET}", stop: 9}}}
  - id: rows
    tags: {kind: value}
    payload: []
    source: {custom: {ref: "program.py:Table", args: {password: "${env:DGS_TEST_SECRET}"}}}
runtime: {kind: local}
checkpoint: {every: 1ms}
spark: {conf: {spark.hadoop.password: "x-${env:DGS_TEST_SECRET}"}}
sinks:
  - jsonl: {path: out}
  - callable: {ref: "program.py:heard", args: {password: "${env:DGS_TEST_SECRET}"}}
"""


@pytest.fixture
def project(tmp_path):
    write_files(
        tmp_path, {"program.py": PROGRAM, "plan.yaml": PLAN, "valid.json": json.dumps([SECRET, OTHER])}
    )
    return tmp_path


def dgs(project, *words, secret=SECRET, umask=0o022):
    """Run a command in a process of its own; return its exit code and its whole output."""
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    environ.pop("DGS_TEST_SECRET", None)
    if secret is not None:
        environ["DGS_TEST_SECRET"] = secret
    done = subprocess.run(
        [sys.executable, "-m", "dgs", *words],
        cwd=project,
        env=environ,
        capture_output=True,
        text=True,
        umask=umask,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def spellings(secret):
    return [secret, repr(secret)[1:-1], json.dumps(secret)[1:-1], "unmistakable"]


def leaks(project):
    """Return the files below the project that contain the secret, without those that the test wrote."""
    files = [path for path in project.rglob("*") if path.is_file() and path.name != "valid.json"]
    return [path for path in files if any(text.encode() in path.read_bytes() for text in spellings(SECRET))]


COMMANDS = [
    ("run", "plan.yaml", "--show-config"),
    ("run", "plan.yaml", "--show-config", "--json"),
    ("plan", "plan.yaml"),
    ("plan", "plan.yaml", "--json"),
    ("explain", "plan.yaml"),
    ("run", "plan.yaml", "--json", "--verify"),
    ("run", "plan.yaml", "--set", "program.args.passwort=${env:DGS_TEST_SECRET}"),
    ("run", "plan.yaml", "--set", "runtime.hosts=${env:DGS_TEST_SECRET}"),
    (
        "run",
        "plan.yaml",
        "--json",
        "--set",
        "streams.rows.source.custom.args={word: '${env:DGS_TEST_SECRET}'}",
    ),
]


def test_no_command_says_or_writes_the_value_of_a_variable(project):
    for words in COMMANDS:
        _, said = dgs(project, *words)
        assert not [text for text in spellings(SECRET) if text in said], words
        assert not leaks(project), words


QUERY = """\
version: 1
name: totals
program:
  query:
    text: select a, sum(n) as total, max($code) as code from t where a <> $code group by a
    params: {code: "${env:DGS_TEST_SECRET}"}
    answer: {rows: 2}
streams:
  - {id: t, source: {csv: {path: t.csv}}, split: 2}
checkpoint: {every: 1ms}
runtime: {kind: local}
report: true
sinks:
  - callable: {ref: "program.py:heard", args: {password: "${env:DGS_TEST_SECRET}"}}
"""
WRONG_QUERIES = [
    "cast(a as int) + cast($code as int) as n",
    "n + $code as n",
    "length($code, a) as n",
    "$code n m",
]


def test_no_command_says_or_writes_a_parameter_of_a_query(project, dgs, monkeypatch):
    monkeypatch.chdir(project)
    monkeypatch.setenv("DGS_TEST_SECRET", SECRET)
    table = "ts,a,n\n" + "".join(f"{row},a{row % 2},{row}\n" for row in range(9))
    write_files(project, {"q.yaml": QUERY, "t.csv": table})
    for line in (
        "run q.yaml --verify",
        "explain q.yaml --query",
        "explain q.yaml --query --json",
        "resume q.yaml",
    ):
        done = dgs(line)
        assert done.code == 0, done.err
        assert not [text for text in spellings(SECRET) if text in done.out + done.err], line
        assert not leaks(project), line
    assert list(project.rglob("record-a.dgs"))
    for wrong in WRONG_QUERIES:
        write_files(project, {"q.yaml": QUERY.replace("a, sum(n) as total", wrong)})
        done = dgs("run q.yaml")
        assert done.code in (3, 5), wrong
        assert "unmistakable" not in done.out + done.err
        assert not leaks(project), wrong


@pytest.mark.slow
def test_failed_run_is_resumed_with_the_value_of_today(project):
    (project / "fails").touch()
    code, said = dgs(project, "run", "plan.yaml", "--run-dir", "one", "--json")
    assert (code, "no access for" in said, "${env:DGS_TEST_SECRET}" in said) == (1, True, True)
    (project / "fails").unlink()
    told = [said, *(dgs(project, "explain", "--story", "one")[1] for _ in range(1))]
    code, said = dgs(project, "resume", "one", secret=None)
    assert (code, "'DGS_TEST_SECRET' is not set" in said) == (3, True)
    code, said = dgs(project, "resume", "one", "--json", secret=OTHER)
    assert code == 0, said
    assert not [text for text in spellings(SECRET) for said in told if text in said]
    assert not leaks(project)
    assert "${env:DGS_TEST_SECRET}" in (project / "one" / "plan.yaml").read_text()


def test_stored_plan_reads_back_unchanged(project):
    """Numbers, quoted text and paths with variables, read from another directory."""
    written = {
        "streams.numbers.source.generator.args.stop=${env:DGS_STOP}",
        "streams.numbers.source.generator.args.password='${env:DGS_TEXT}'",
        "checkpoint.dir=${env:DGS_PLACE}/epochs",
    }
    (project / "valid.json").write_text(json.dumps([SECRET, "7"]))
    flags = [word for one in written for word in ("--set", one)]
    environ = {"DGS_STOP": "6", "DGS_TEXT": "7", "DGS_PLACE": "kept"}
    done = subprocess.run(
        [sys.executable, "-m", "dgs", "run", "plan.yaml", "--run-dir", "a/one", *flags],
        cwd=project,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[3]),
            "DGS_TEST_SECRET": SECRET,
            **environ,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    text = (project / "a" / "one" / "plan.yaml").read_text()
    data = parse(text, "plan.yaml", {**environ, "DGS_TEST_SECRET": SECRET}).data
    generator = data["streams"][0]["source"]["generator"]
    assert generator["args"] == {"password": "7", "stop": 6}
    assert data["checkpoint"]["dir"] == "../../kept/epochs"
    assert "dir: ../../${env:DGS_PLACE}/epochs" in text


def test_error_of_a_plan_file_does_not_show_a_value(monkeypatch):
    monkeypatch.setenv("DGS_TEST_SECRET", SECRET)
    try:
        with pytest.raises(PlanFileError) as raised:
            resolve(
                parse(PLAN.replace("every: 1ms", 'every: "${env:DGS_TEST_SECRET}"'), "plan.yaml", os.environ),
                {},
                {},
            )
        shown = f"{raised.value} {raised.value!r}"
        assert "${env:DGS_TEST_SECRET}" in shown
        config = resolve(parse(PLAN, "plan.yaml", os.environ), {}, {})
        shown += f"{config!r} {config.config} {config.document}"
        assert not [text for text in spellings(SECRET) if text in shown]
    finally:
        forget("DGS_TEST_SECRET")


SOCKET = """\
version: 1
name: count
program: {ref: "program.py:Sums", args: {password: open}}
streams:
  - id: rows
    tags: {kind: value}
    payload: []
    source: {socket: {port: 0, token: "${env:DGS_TEST_SECRET}"}}
runtime: {kind: local}
checkpoint: {every: 1ms}
"""


@pytest.mark.parametrize("line", ['{"kind": "end"}', "{"], ids=["right", "wrong"])
def test_token_of_a_port_is_in_no_file_and_no_message(project, line):
    """Neither the right token nor the wrong token of a client."""
    write_files(project, {"plan.yaml": SOCKET, "valid.json": '["open"]'})
    run = subprocess.Popen(
        [sys.executable, "-m", "dgs", "run", "plan.yaml", "--run-dir", "one", "--json"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "DGS_TEST_SECRET": SECRET},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    place = project / "one" / "logs" / "rows" / "listening"
    wait_until(lambda: place.exists() or run.poll() is not None)
    host, _, port = place.read_text().strip().rpartition(":")
    for token in (f"{SECRET}!", SECRET):
        with socket.create_connection((host, int(port)), timeout=60) as client, client.makefile() as answers:
            client.sendall(json.dumps({"kind": "token", "token": token}).encode() + b"\n")
            if token == SECRET:
                assert json.loads(answers.readline()) == {"token": "accepted"}
                client.sendall(f'{{"ts": 1}}\n{line}\n'.encode())
            answers.read()
    said, _ = run.communicate(timeout=60)
    assert (run.returncode == 0) == ("end" in line), said
    assert not [text for text in spellings(SECRET) if text in said]
    assert not leaks(project)


@pytest.mark.parametrize(
    "value", ["p", "no", "local", "seven-s", "a longer one", "two\nlines of text", "100%/ü"]
)
def test_masked_data_comes_back_with_the_value_of_today(value):
    hide("DGS_TEST_SECRET", value)
    try:
        saved = masked_data({"whole": value, "inside": [f"-{value}-"], "number": 7})
        assert saved["whole"] == "${env:DGS_TEST_SECRET}"
        hide("DGS_TEST_SECRET", "new")
        assert revealed(saved)["whole"] == "new"
    finally:
        forget("DGS_TEST_SECRET")
    assert masked(value) == value


def modes(place):
    return {
        str(path.relative_to(place)): stat.S_IMODE(path.lstat().st_mode)
        for path in (place, *place.rglob("*"))
        if not path.is_symlink()
    }


@pytest.mark.parametrize(
    ("of_process", "umask", "folders", "files"),
    [(0o022, None, 0o700, 0o600), (0o077, "007", 0o770, 0o660), (0o000, "027", 0o750, 0o640)],
)
def test_run_directory_is_for_its_user_or_the_group_whatever_the_mask_of_the_process(
    project, umask, folders, files, of_process
):
    """Skipped events, checkpoints, outputs, a story: all files of the run in it. Sinks elsewhere keep the mask of the process."""
    (project / "fails").touch()
    plan = PLAN.replace("- jsonl: {path: out}", "- jsonl: {path: out}\n  - jsonl: {path: one/outputs}")
    (project / "plan.yaml").write_text(plan + "on_error: skip\n" + (f"umask: {umask}\n" if umask else ""))
    code, said = dgs(project, "run", "plan.yaml", "--run-dir", "one", umask=of_process)
    assert code == 0, said
    found = modes(project / "one")
    assert {"checkpoints", "outputs", "plan.yaml", "results.json", "run.json"} <= set(found)
    assert any(name.startswith("dead-letter") for name in found)
    wrong = {
        name: oct(mode)
        for name, mode in found.items()
        if mode != (folders if (project / "one" / name).is_dir() else files)
    }
    assert not wrong
    outputs = modes(project / "out")
    assert outputs.pop(".") == 0o777 & ~of_process
    assert {mode for name, mode in outputs.items() if name.startswith("part")} == {0o666 & ~of_process}


@pytest.mark.parametrize("taken", [None, "notes.txt", "plan.yaml"])
def test_directory_that_was_there_keeps_its_mode_unless_it_is_empty(project, taken):
    """Such as the home directory of the user, or `/`: it has files of others, too."""
    there = project / "there"
    there.mkdir()
    if taken is not None:
        (there / taken).write_text("mine")
    there.chmod(0o755)
    code, said = dgs(project, "run", "plan.yaml", "--run-dir", "there")
    assert (code, "files that no run has written" in said) == (
        (4, True) if taken == "plan.yaml" else (0, False)
    ), said
    assert stat.S_IMODE(there.stat().st_mode) == (0o700 if taken is None else 0o755)
    if code == 0:
        assert modes(there)["results.json"] == 0o600
        assert modes(there)["checkpoints"] == 0o700


@pytest.mark.parametrize("umask", ["777", "070", "700", "000", "022x", 8])
def test_umask_that_shuts_the_owner_out_or_lets_others_write_is_refused(umask):
    with pytest.raises(ValueError, match="umask"):
        PlanFile.model_validate({**parse(PLAN, "p", {"DGS_TEST_SECRET": "none"}).data, "umask": umask})


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_directory_that_another_user_has_made_in_an_open_place_is_refused(tmp_path):
    tmp_path.chmod(0o1777)
    for name in ("taken", "link"):
        (tmp_path / name).mkdir() if name == "taken" else (tmp_path / name).symlink_to(tmp_path / "real")
        os.chown(tmp_path / name, 65534, 65534, follow_symlinks=False)
        with pytest.raises(ForeignDirectoryError, match="belongs to another user"):
            private_files.make_directory(tmp_path / name / "below")
    private_files.make_directory(tmp_path / "own")


TRY_ALL = """\
import os, socket, sys
for place in sys.argv[2:]:
    for folder, names, files in os.walk(place):
        for name in [*names, *files, "new"]:
            path = os.path.join(folder, name)
            for flags in (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY | os.O_CREAT):
                try:
                    os.close(os.open(path, flags))
                    print(path)
                except OSError:
                    pass
try:
    socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(sys.argv[1])
    print("connected")
except PermissionError:
    pass
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_another_user_reads_writes_and_reaches_nothing_of_a_run(project):
    """Except the project's own files and the outputs of sinks elsewhere. All folders above the project are open to the other user."""
    import shutil
    import tempfile

    from dgs.workers.transport.unix_door import Door

    door = Door(0, 2, b"token")
    with tempfile.TemporaryDirectory(dir="/tmp") as open_place:
        place = Path(open_place) / "project"
        shutil.copytree(project, place)
        for above in (place.parent, place):
            above.chmod(0o755)
        assert dgs(place, "run", "plan.yaml", "--run-dir", "one")[0] == 0
        done = subprocess.run(
            ["/usr/bin/env", "python3", "-c", TRY_ALL, door.address, str(place)],
            capture_output=True,
            text=True,
            user=65534,
            group=65534,
            extra_groups=[],
            cwd="/",
            check=True,
        )
        reached = {str(Path(line).relative_to(place)) for line in done.stdout.split() if line != "connected"}
        assert "connected" not in done.stdout
        assert {"plan.yaml", "out"} <= reached
        assert not [name for name in reached if name.startswith("one") and name != "one"]
        assert not [name for name in reached if name.endswith("/new")]
    door.close()


LEAKS = """\
import dgs

VALUE = dgs.kind("value")


class Leaks(dgs.Program):
    kinds = (VALUE,)

    def __init__(self, password):
        self.password = password

    def depends(self, a, b):
        if IN_RELATION:
            raise ValueError(self.password)
        return True

    def init(self):
        return 0

    def update(self, state, event, emit):
        raise ValueError(f"no access for {self.password}")
"""


@pytest.mark.parametrize("in_relation", [False, True])
def test_check_does_not_show_a_value_in_an_exception(tmp_path, dgs, monkeypatch, in_relation):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DGS_PASSWORD", SECRET)
    plan = """\
version: 1
name: leaks
program: {ref: "leaks.py:Leaks", args: {password: "${env:DGS_PASSWORD}"}}
streams: [{id: left, tags: {kind: value}, source: {csv: {path: left.csv}}}]
runtime: {kind: local}
"""
    write_files(
        tmp_path,
        {
            "left.csv": "ts\n1\n",
            "leaks.py": LEAKS.replace("IN_RELATION", str(in_relation)),
            "plan.yaml": plan,
        },
    )
    for flags in ("", " --json"):
        done = dgs(f"check plan.yaml{flags}")
        assert done.code == 1, done.err
        assert "unmistakable" not in done.out + done.err
        assert "${env:DGS_PASSWORD}" in done.out + done.err
