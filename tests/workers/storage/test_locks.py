"""Locks on files: one process has a lock, others see the holder, and looking at a lock does not block it."""

import fcntl
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from dgs.workers.storage.locks import GLANCE, BusyError, FileLock, holder_of, take, take_at_once


def test_real_lock_is_held_by_one_and_names_its_process(tmp_path):
    lock = FileLock(tmp_path / "lock")
    with pytest.raises(BusyError, match=f"process {os.getpid()} on"):
        FileLock(tmp_path / "lock")
    lock.release()
    lock.release()
    FileLock(tmp_path / "lock").release()


def test_looking_at_a_lock_does_not_block_it(tmp_path):
    path = tmp_path / "lock"
    assert holder_of(path) is None
    FileLock(path).release()
    with path.open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        assert holder_of(path) is None
        threading.Timer(2 * GLANCE, lambda: fcntl.flock(looking, fcntl.LOCK_UN)).start()  # it was delayed
        lock = FileLock(path)
    assert holder_of(path) == f"process {os.getpid()} on {socket.gethostname()}"
    lock.release()
    assert holder_of(path) is None


def test_several_readers_see_a_free_lock(tmp_path):
    path = tmp_path / "lock"
    FileLock(path).release()
    with path.open("rb") as one, path.open("rb") as other:
        fcntl.flock(one, fcntl.LOCK_SH)
        fcntl.flock(other, fcntl.LOCK_SH)
        assert holder_of(path) is None


def test_lock_of_an_open_file_is_not_had_twice_and_leaves_its_content(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"content")
    with path.open("r+b") as one, path.open("r+b") as other:
        assert take(one.fileno())
        assert not take(other.fileno())
        assert not take_at_once(other.fileno())
        one.close()
        assert take_at_once(other.fileno())
    assert path.read_bytes() == b"content"


def test_of_several_that_wait_for_a_look_one_takes_the_lock(tmp_path):
    path, taken = tmp_path / "lock", []
    FileLock(path).release()

    def take():
        try:
            taken.append(FileLock(path))
        except BusyError:
            taken.append(None)

    with path.open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(2 * GLANCE)
    for thread in threads:
        thread.join()
    (lock,) = filter(None, taken)
    lock.release()


def test_real_lock_ends_with_its_process(tmp_path):
    script = (
        "import sys; from pathlib import Path; from dgs.workers.storage.locks import FileLock\n"
        "lock = FileLock(Path(sys.argv[1])); print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    ) as other:
        assert other.stdout.readline() == b"locked\n"
        with pytest.raises(BusyError) as caught:
            FileLock(tmp_path / "lock")
        assert f"process {other.pid} " in caught.value.holder
        other.kill()
        other.wait()
    FileLock(tmp_path / "lock").release()
