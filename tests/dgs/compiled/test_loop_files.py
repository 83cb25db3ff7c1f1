"""Files of loops: a torn file is compiled again, and a read-only folder is no error."""

import shutil
import tempfile

import pytest

from dgs.compiled import loop_files
from tests.dgs.compiled.both_ways import Compiled, batch_of, interpreted, program_of

TEXT = "class P(dgs.Program):\n    def init(self): return 0\n    def update(self, state, event, emit):\n        return state + {}\n"


def folds(number):
    """Fold with a loop that no other test makes."""
    program, batch = program_of(TEXT.format(number)), batch_of(list(range(9)))
    compiled = Compiled(program, loop_files.machine_code)
    assert compiled.fold(batch, 0) == interpreted(program, batch, 0)
    return compiled.update


@pytest.mark.parametrize("torn", [b"", bytes(4000)])
def test_machine_code_that_is_torn_is_made_again(machine, torn):
    folds(101)
    (code,) = loop_files.folder().glob("*.o")
    whole = code.read_bytes()
    code.write_bytes(torn)
    loop_files._function.cache_clear()
    assert folds(101).events == 9
    assert code.read_bytes() == whole


def test_an_emptied_folder_is_filled_again(machine):
    folds(104)
    shutil.rmtree(loop_files.folder())
    assert folds(104).events == 9


def test_a_folder_of_the_process_is_made_only_if_needed(machine, monkeypatch, tmp_path):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    loop_files._own_folder.cache_clear()
    folds(107)
    assert list((tmp_path / "temporary").iterdir()) == []
    own = loop_files._own_folder()
    assert list((tmp_path / "temporary").iterdir()) == [own.path]
    own.remove()
    loop_files._own_folder.cache_clear()


def test_a_folder_that_cannot_be_made_is_replaced_by_one_of_the_process(machine, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert folds(102).events == 9


def test_code_that_cannot_be_written_leaves_the_interpreter(machine, monkeypatch):
    plain = loop_files._put

    def full(path, data):
        if path.suffix == loop_files.CODE:
            raise OSError(28, "No space left on device")
        plain(path, data)

    monkeypatch.setattr(loop_files, "_put", full)
    update = folds(103)
    assert update.events == 0
    assert "No space left" in str(*update.refusals.values())
