"""Files that appear whole or not at all: one of two writers wins, and a failure leaves no other files."""

import errno
import os

import pytest

from dgs.errors import OutputUnwritableError
from dgs.workers.storage.disk import make_directory, put_new, replace_with


@pytest.mark.parametrize("write", [put_new, replace_with])
@pytest.mark.parametrize("call", ["write", "fsync"])
def test_write_that_fails_names_the_file_and_leaves_nothing(tmp_path, monkeypatch, write, call):
    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OutputUnwritableError, match=f"{tmp_path}/file: No space left"):
        write(tmp_path / "file", b"x")
    assert not list(tmp_path.iterdir())


def test_existing_file_keeps_its_content_and_no_leftovers_stay(tmp_path):
    assert put_new(tmp_path / "file", b"one")
    assert not put_new(tmp_path / "file", b"two")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"one")]


def test_new_file_has_its_name_durably(tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "link"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, name=name, real=real: (calls.append(name), real(*a))[1])
    put_new(tmp_path / "file", b"x")
    assert calls == ["fsync", "link", "fsync"]


def test_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputUnwritableError, match=f"{tmp_path}/file/below"):
        make_directory(tmp_path / "file" / "below")
