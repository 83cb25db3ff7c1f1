"""Disks: `write_new` writes whole and durable files, and the simulated disk fails like real ones."""

import errno
import os
from pathlib import Path
from random import Random

import pytest

from dgs.workers.simulated.disk import DiskFaults, SimulatedCrash, SimulatedDisk
from dgs.workers.storage.disk import RealDisk

FILE = Path("/d/file")


def names(disk):
    """Return the names of a directory without leftovers of unfinished files."""
    return [name for name in disk.names(FILE.parent) if not name.endswith(".tmp")]


def test_real_files_and_directories_are_their_owners_alone(tmp_path):
    disk, folder = RealDisk(), tmp_path / "a" / "b"
    disk.make_directory(folder)
    disk.make_directory(folder)
    disk.write_new(folder / "file", b"x")
    disk.lock(folder / "lock").release()
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "a").rglob("*")}
    assert modes == {"b": 0o700, "file": 0o600, "lock": 0o600}


def test_real_disk_creates_only_missing_files(tmp_path):
    disk = RealDisk()
    disk.create(tmp_path / "file", b"x")
    with pytest.raises(FileExistsError):
        disk.create(tmp_path / "file", b"y")
    assert disk.read(tmp_path / "file") == b"x"


@pytest.mark.parametrize("call", ["write", "fsync", "read_back", "rename"])
def test_real_write_that_fails_leaves_the_old_content_and_nothing_else(tmp_path, monkeypatch, call):
    disk = RealDisk()
    disk.write_new(tmp_path / "file", b"old")

    def fail(*_):
        raise OSError(errno.EIO, "broken")

    if call in ("write", "fsync"):
        monkeypatch.setattr(os, call, fail)
    else:
        monkeypatch.setattr(RealDisk, call, fail)
    with pytest.raises(OSError, match="broken"):
        disk.write_new(tmp_path / "file", b"new")
    assert (disk.names(tmp_path), disk.read(tmp_path / "file")) == (["file"], b"old")
    assert not open_descriptors_below(tmp_path)


def open_descriptors_below(folder):
    return [link for link in Path("/proc/self/fd").iterdir() if folder in link.resolve().parents]


def test_real_write_is_in_the_order_that_makes_it_durable(tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *a, name=name, real=real, **k: (calls.append(name), real(*a, **k))[1]
        )
    RealDisk().write_new(tmp_path / "file", b"x")
    assert calls == ["fsync", "replace", "fsync"]


def test_real_disk_goes_on_after_a_short_write(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    RealDisk().write_new(tmp_path / "file", b"0123456789")
    assert RealDisk().read(tmp_path / "file") == b"0123456789"


def test_simulated_disk_keeps_what_was_synced_and_may_lose_the_rest():
    found = set()
    for seed in range(200):
        disk = SimulatedDisk(Random(seed))
        disk.write_new(FILE, b"old")
        disk.create(FILE.with_name("new"), b"new")
        disk.rename(FILE.with_name("new"), FILE)
        disk.crash()
        found.add((tuple(disk.names(FILE.parent)), disk.read(FILE)))
    assert found == {
        (("file",), b"old"),  # neither name survived
        (("file", "new"), b"old"),  # the creation only
        (("file",), b"new"),  # the rename
    }


def test_simulated_rename_is_durable_after_its_directory_was_synced():
    for seed in range(50):
        disk = SimulatedDisk(Random(seed))
        disk.create(FILE, b"x")
        disk.sync_directory(FILE.parent)
        disk.unlink(FILE)
        disk.create(FILE, b"y")
        disk.sync_directory(FILE.parent)
        disk.crash()
        assert disk.read(FILE) == b"y"


def test_simulated_content_that_was_not_synced_is_torn():
    found = set()
    for seed in range(200):
        disk = SimulatedDisk(Random(seed), DiskFaults(fsync=1))
        with pytest.raises(OSError, match="Input/output"):
            disk.create(FILE, b"abc")
        disk.crash()
        if disk.exists(FILE):
            found.add(disk.read(FILE))
    assert found == {b"", b"a", b"ab", b"abc"}


def test_simulated_directory_whose_fsync_failed_is_never_surely_durable():
    def lost(seed):
        disk = SimulatedDisk(Random(seed), DiskFaults(sync_directory=1))
        disk.create(FILE, b"x")
        with pytest.raises(OSError, match="Input/output"):
            disk.sync_directory(FILE.parent)
        disk.faults = DiskFaults()
        disk.sync_directory(FILE.parent)
        disk.create(FILE.with_name("later"), b"y")
        disk.sync_directory(FILE.parent)
        disk.crash()
        assert disk.exists(FILE.with_name("later"))
        return not disk.exists(FILE)

    assert {lost(seed) for seed in range(20)} == {True, False}


@pytest.mark.parametrize("fault", ["full", "torn", "flip", "read", "fsync", "rename", "sync_directory"])
def test_write_new_tells_every_fault_and_leaves_the_old_or_the_new(fault):
    for seed in range(20):
        disk = SimulatedDisk(Random(seed))
        disk.write_new(FILE, b"old content")
        disk.faults = DiskFaults(**{fault: 1})
        with pytest.raises(OSError, match=r"Input/output|No space|content that was written"):
            disk.write_new(FILE, b"new content")
        disk.faults = DiskFaults()
        assert disk.names(FILE.parent) == ["file"]
        assert disk.read(FILE) in (b"old content", b"new content")
        disk.crash()
        assert disk.read(FILE) in (b"old content", b"new content")


def test_write_new_cut_short_anywhere_leaves_the_old_or_the_new():
    found = []
    for point in range(20):
        for seed in range(20):
            disk = SimulatedDisk(Random(seed))
            disk.write_new(FILE, b"old")
            disk.crash_at = disk.operations + point
            try:
                disk.write_new(FILE, b"new")
            except SimulatedCrash:
                is_done = False
            else:
                is_done = True
            disk.crash()
            assert names(disk) == ["file"]
            found.append((is_done, disk.read(FILE)))
    assert set(found) == {(False, b"old"), (False, b"new"), (True, b"new")}


def test_simulated_crash_leaves_nothing_running():
    disk = SimulatedDisk(Random(1), crash_at=0)
    for _ in range(3):
        with pytest.raises(SimulatedCrash):
            disk.create(FILE, b"x")
    assert disk.operations == 0


def test_simulated_flip_turns_one_bit():
    disk = SimulatedDisk(Random(1))
    disk.create(FILE, b"\0\0")
    disk.flip(FILE, 9)
    assert disk.read(FILE) == b"\0\2"


def test_simulated_disk_is_reproducible():
    def story(seed):
        disk, told = SimulatedDisk(Random(seed), DiskFaults(*[0.2] * 8)), []
        for number in range(40):
            try:
                disk.write_new(FILE, bytes([number]) * 20)
            except OSError as error:
                told.append((number, error.errno))
            if number % 7 == 6:
                disk.crash()
            told.append(disk.names(FILE.parent))
        return told

    assert story(3) == story(3)
    assert story(3) != story(4)
