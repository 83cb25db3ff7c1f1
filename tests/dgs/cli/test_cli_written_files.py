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
}
WITHOUT_MARK = [name for name in COMMANDS if name.startswith(("rows", "state"))]
"""Answers of queries and states look like any other table and value, so they replace the file that is named."""

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


@pytest.fixture
def here(project, dgs, monkeypatch):
    monkeypatch.chdir(project)
    (project / "unlawful.py").write_text(BROKEN)
    assert dgs("run plan.yaml --run-dir run").code == 0
    return project


@pytest.mark.parametrize("name", COMMANDS)
def test_pipe_socket_or_device_is_refused_and_our_own_file_is_replaced(here, dgs, name):
    line = f"{COMMANDS[name]} {name}"
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


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - set(WITHOUT_MARK)))
def test_file_of_others_is_kept(here, dgs, name):
    (here / name).write_text("my notes\n")
    done = dgs(f"{COMMANDS[name]} {name}")
    assert done.code == 3
    assert f"{name} is there and was not made by `dgs" in done.err
    assert (here / name).read_text() == "my notes\n"
