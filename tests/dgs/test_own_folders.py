"""Folders of one process: a later process removes those of killed ones, and no others."""

import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from dgs.own_folders import OwnFolder, remove_left

PREFIX = "dgs-example-"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_folders_of_killed_processes_are_removed(place):
    there = {name: Path(tempfile.mkdtemp(prefix=PREFIX)) for name in ("left", "new", "held")}
    (there["left"] / "socket").touch()
    for name in ("left", "held"):
        os.utime(there[name], (0, 0))
    descriptor = os.open(there["held"], os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    own = OwnFolder(PREFIX)
    assert set(place.iterdir()) == {there["new"], there["held"], own.path}
    os.utime(own.path, (0, 0))
    remove_left(PREFIX, 1e9)
    assert own.path.exists()
    os.close(descriptor)
    own.remove()
    assert not own.path.exists()


@pytest.mark.parametrize(("end", "stays"), [("", False), ("os.kill(os.getpid(), 9)", True)])
def test_a_process_removes_its_folder_unless_it_is_killed(place, end, stays):
    code = f"import os\nfrom dgs.own_folders import OwnFolder\nkept = OwnFolder({PREFIX!r})\nif os.fork() == 0: exit()\nos.wait()\nassert kept.path.exists()\n{end}"
    environment = {**os.environ, "TMPDIR": str(place)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=False, capture_output=True)
    assert (done.returncode == 0) == (not stays), done.stderr
    assert bool(list(place.iterdir())) == stays
