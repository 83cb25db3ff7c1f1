"""Event logs without read permission: an error with a fix, not an error of damage."""

import os

import pytest

from dgs.job import private_files
from dgs.workers.event_log import LogReader, LogWriter
from dgs.workers.event_log.segments import UnreadableLogError


@pytest.mark.parametrize("what", ["list", "file"])
def test_log_that_may_not_be_read_is_no_damaged_one(tmp_path, monkeypatch, what):
    LogWriter(tmp_path, "clicks", "w").append(0, {"ts": [1]})

    def denied(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(
        *((os, "listdir", denied) if what == "list" else (private_files, "read_bytes", denied))
    )
    with pytest.raises(UnreadableLogError, match=r"clicks.*Permission denied.*Let this user read"):
        LogReader(tmp_path, "clicks").poll()
