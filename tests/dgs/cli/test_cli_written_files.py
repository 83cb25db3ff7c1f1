"""Files that a user names, for a command to write: a file of others is kept, and a pipe, a socket or a device is refused at once."""

import os
import socket

import pytest

COMMANDS = {
    "plan.txt": "plan plan.yaml --save",
    "plot.svg": "predict plan.yaml --hosts 1 --plot",
    "page.html": "report run -o",
    "run.svg": "report run --picture",
    "found.json": "check unlawful.py:Broken --max-examples 20 --save-counterexample",
    "state.json": "run plan.yaml --save-state",
    "state": "run plan.yaml --save-state",
    "rows.csv": "query 'select 1 as a' -o",
    "rows.jsonl": "query 'select 1 as a' -o",
    "rows.parquet": "query 'select 1 as a' -o",
    "stored": "query --lang pig \"a = LOAD 'left.csv' AS (l: chararray); STORE a INTO 'stored';\"",
    "answer.sql": "query 'select 1 as a' --emit duckdb -o .",
}
BROKEN = """\
import dgs


class Broken(dgs.Program):
    kinds = (dgs.kind("value"),)
    depends = dgs.Dependence()

    def init(self):
        return 0

    def update(self, state, event, emit):
        emit(state)
        return state + 1

    def fork(self, state, left, right):
        return state, 0

    def join(self, left, right):
        return left
"""


def line_of(name):
    """Return the command that writes a file of this name."""
    return COMMANDS[name] if name in ("stored", "answer.sql") else f"{COMMANDS[name]} {name}"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def here(project, dgs, monkeypatch):
    monkeypatch.chdir(project)
    (project / "unlawful.py").write_text(BROKEN)
    assert dgs("run plan.yaml --run-dir run").code == 0
    return project


@pytest.mark.parametrize("name", COMMANDS)
def test_pipe_socket_or_device_is_refused_and_our_own_file_is_replaced(here, dgs, name):
    line = line_of(name)
    os.mkfifo(here / name)
    assert "is a pipe, not a file" in dgs(line).err
    (here / name).unlink()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(name)
        assert "is a socket, not a file" in dgs(line).err
    (here / name).unlink()
    master, terminal = os.openpty()
    (here / name).symlink_to(os.ttyname(terminal))  # a device that no test can replace, whoever runs it
    assert "is a device, not a file" in dgs(line).err
    (here / name).unlink()
    for descriptor in (master, terminal):
        os.close(descriptor)
    first, again = dgs(line), dgs(line)
    assert first.code == again.code in (0, 1), again.err
    assert (here / name).stat().st_size


@pytest.mark.parametrize("name", COMMANDS)
def test_file_of_others_is_kept(here, dgs, name):
    (here / name).write_text("my notes\n")
    done = dgs(line_of(name))
    assert done.code == 3
    assert f"{name} is there and was not made by `" in done.err
    assert "Name another file, or " in done.err
    assert (here / name).read_text() == "my notes\n"
    assert not done.out  # it is told before the work


LATE = ["state.json", "rows.csv", "rows.parquet", "stored"]


@pytest.mark.parametrize("name", LATE)
def test_a_file_that_was_changed_since_is_kept(here, dgs, name):
    assert dgs(line_of(name)).code == 0
    with (here / name).open("ab") as file:
        file.write(b"and mine")
    before, runs = (here / name).read_bytes(), len(list(here.rglob("run.json")))
    done = dgs(line_of(name))
    assert (done.code, "or has changed since" in done.err) == (3, True)
    assert (here / name).read_bytes() == before
    assert len(list(here.rglob("run.json"))) == runs  # it is told before the work


def test_the_input_of_a_query_is_kept(here, dgs):
    before = (here / "left.csv").read_text()
    assert dgs("query 'select * from t' --from t=left.csv -o left.csv").code == 3
    script = "a = LOAD 'left.csv' AS (l: chararray); b = LIMIT a 1; STORE b INTO './left.csv';"
    assert dgs(f'query --lang pig "{script}"').code == 3
    assert (here / "left.csv").read_text() == before


def test_no_file_is_written_if_one_of_several_is_kept(here, dgs):
    (here / "two.pig").write_text(
        "a = LOAD 'left.csv' AS (l: chararray); b = LIMIT a 1; STORE a INTO 'a'; STORE b INTO 'b';"
    )
    (here / "b").write_text("mine")
    (here / "rows.b.csv").write_text("mine")
    (here / "b.sql").write_text("mine")
    for more in ("", " -o rows.csv", " --emit duckdb -o ."):
        assert dgs(f"query two.pig{more}").code == 3
    assert not any((here / name).exists() for name in ("a", "rows.a.csv", "a.sql"))


def test_two_stores_into_one_file_are_refused(here, dgs):
    (here / "two.pig").write_text(
        "a = LOAD 'left.csv' AS (l: chararray); b = LIMIT a 1; STORE a INTO 'a'; STORE b INTO './a';"
    )
    done = dgs("query two.pig")
    assert (done.code, "'./a' is stored twice" in done.err) == (3, True)
    assert not (here / "a").exists()
