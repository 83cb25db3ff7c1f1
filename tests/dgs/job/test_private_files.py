"""Files that are written whole: a failure leaves the old file, and no other files."""

import os
import stat
from pathlib import Path

import pytest

from dgs.job import private_files


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "run.json"
    private_files.write(path, "old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        private_files.write(path, "new")
    assert (path.read_text(), list(tmp_path.iterdir())) == ("old", [path])


def test_files_of_others_beside_the_file_are_left_alone(tmp_path):
    theirs, path = tmp_path / "theirs", tmp_path / "state.json"
    theirs.write_text("mine")
    for name in ("state.json.draft", ".state.json.draft"):
        (tmp_path / name).symlink_to(theirs)
    private_files.write_whole(path, b"new")
    assert (path.read_text(), theirs.read_text()) == ("new", "mine")
    assert len(list(tmp_path.iterdir())) == 4


def test_pipe_socket_or_device_is_not_replaced(tmp_path):
    master, terminal = os.openpty()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to(os.ttyname(terminal))
    for name, kind in (("pipe", "a pipe"), ("device", "a device")):
        with pytest.raises(OSError, match=f"is {kind}, not a file"):
            private_files.write_whole(tmp_path / name, b"new")
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "device").is_symlink()
    for descriptor in (master, terminal):
        os.close(descriptor)


def test_only_private_files_are_for_their_owner_alone(tmp_path):
    before = os.umask(0o022)
    try:
        private_files.write(tmp_path / "private", "")
        private_files.write_whole(tmp_path / "public", b"")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("private", "public")]
    assert modes == [0o600, 0o644]
