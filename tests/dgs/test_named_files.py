"""Files that a user names: what a command may write over."""

import os
import time

import pytest

from dgs import named_files
from dgs.named_files import (
    ForeignFileError,
    NamedFileUnwritableError,
    check_named,
    check_writable,
    write_named,
)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "dgs" / "written"


def test_link_that_a_user_names_stays_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_named(tmp_path / "link", "new", "dgs")
    assert ((tmp_path / "file").read_text(), (tmp_path / "link").is_symlink()) == ("new", True)


def test_what_a_command_wrote_is_its_own_until_something_else_changes_it(tmp_path):
    file = tmp_path / "rows.csv"
    for text in ("one", "two"):
        write_named(file, text, "dgs query -o")
    with pytest.raises(
        ForeignFileError,
        match=r"was not made by `STORE`, or has changed since\. Name another file, or remove it",
    ):
        write_named(file, "three", "STORE")
    file.write_text("two and mine")
    with pytest.raises(ForeignFileError):
        check_named(file, "dgs query -o")
    assert file.read_text() == "two and mine"
    write_named(file, "three", "dgs query -o", force=True)
    assert file.read_text() == "three"


def test_place_in_a_directory_is_writable(tmp_path):
    check_writable(tmp_path / "file", "dgs --to")
    assert not (tmp_path / "file").exists()


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("link", "its directory does not exist"),
        ("nowhere/file", "its directory does not exist"),
        ("a\0b", "embedded null"),
        ("circle/file", "(Symlink loop|its directory does not exist)"),
    ],
)
def test_place_without_a_directory_is_not_writable(tmp_path, place, problem):
    (tmp_path / "link").symlink_to("nowhere/file")
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(NamedFileUnwritableError, match=rf"{problem}.*, or name another file for `dgs --to`"):
        check_writable(tmp_path / place, "dgs --to")


def test_an_empty_file_holds_nothing_to_keep(tmp_path):
    for mark in ("", "<mark>"):
        (tmp_path / "file").write_text("")
        write_named(tmp_path / "file", f"{mark}new", "dgs", mark=mark)
        assert (tmp_path / "file").read_text() == f"{mark}new"


def test_a_file_is_known_by_its_place_not_by_the_way_to_it(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    write_named(tmp_path / "file", "one", "dgs")
    monkeypatch.chdir(tmp_path / "sub")
    (tmp_path / "sub" / "link").symlink_to("../file")
    for way in ("../file", "link"):
        write_named(named_files.Path(way), "two", "dgs")
    write_named(tmp_path / "file", "three", "dgs")
    (tmp_path / "file").rename(tmp_path / "moved")
    with pytest.raises(ForeignFileError):
        check_named(tmp_path / "moved", "dgs")


@pytest.mark.parametrize("broken", ["missing", "a file", "no text"])
def test_without_its_note_a_file_is_kept(tmp_path, cache, broken):
    write_named(tmp_path / "file", "one", "dgs")
    (note,) = cache.iterdir()
    assert (note.stat().st_mode & 0o777, "one" in note.read_text()) == (0o600, False)
    if broken == "no text":
        note.write_bytes(b"\xff")
    else:
        note.unlink()
        cache.rmdir()
        if broken == "a file":
            cache.write_text("")
            write_named(tmp_path / "other", "it is written all the same", "dgs")
    with pytest.raises(ForeignFileError):
        write_named(tmp_path / "file", "two", "dgs")


def test_notes_do_not_grow_without_bound(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(named_files, "MOST_NOTES", 3)
    for number in range(6):
        write_named(tmp_path / str(number), "one", "dgs")
        for note in cache.iterdir():
            os.utime(
                note, (time.time() - 100 + number,) * 2
            ) if note.stat().st_mtime > time.time() - 50 else None
    assert len(list(cache.iterdir())) == 3
    check_named(tmp_path / "5", "dgs")
