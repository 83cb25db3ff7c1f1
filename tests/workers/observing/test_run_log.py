"""The log of a run: its file, its levels, and the records of other handlers."""

import json
import logging
import stat
import subprocess
import sys
from pathlib import Path

from dgs.errors.hidden_values import forget, hide
from dgs.workers.observing.run_log import RunLog, formatter, on_stderr


def test_the_file_has_everything_from_info_on_whatever_the_levels_are(tmp_path, caplog):
    caplog.set_level(logging.WARNING, "dgs.run")
    log = RunLog(tmp_path / "run.log", name="sums", log_format="json")
    log.info("commits epoch 1")
    log.failure("a disk is full")
    log.close()
    lines = [json.loads(line) for line in log.path.read_text().splitlines()]
    assert [(line["level"], line["logger"], line["message"], line["name"]) for line in lines] == [
        ("info", "dgs.run", "commits epoch 1", "sums"),
        ("error", "dgs.run", "a disk is full", "sums"),
    ]
    assert caplog.messages == ["a disk is full"]


def test_the_file_is_the_users_alone(tmp_path):
    log = RunLog(tmp_path / "run.log", name="sums")
    log.info("begins")
    log.close()
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600


def test_a_log_that_cannot_be_written_does_not_end_the_run(tmp_path):
    log = RunLog(tmp_path / "gone" / "run.log", name="sums")
    log.info("begins")
    log.close()


def test_values_of_the_environment_are_not_logged(tmp_path):
    hide("LOG_TEST_PASSWORD", "swordfish-11")
    try:
        log = RunLog(tmp_path / "run.log", name="sums")
        log.warning("cannot log in with swordfish-11")
        log.close()
    finally:
        forget("LOG_TEST_PASSWORD")
    assert "swordfish" not in log.path.read_text()


def test_stderr_gets_log_lines_and_no_notices(capsys):
    logger, handler = logging.getLogger("dgs.test_of_stderr"), on_stderr(logging.INFO, "text")
    logger.addHandler(handler)
    try:
        logger.warning("shown")
        logger.warning("a notice", extra={"is_notice": True})
    finally:
        logger.removeHandler(handler)
    assert capsys.readouterr().err.endswith(" UTC WARNING dgs.test_of_stderr: shown\n")


def test_a_trace_is_in_the_line():
    try:
        int("lost")
    except ValueError:
        record = logging.makeLogRecord({"name": "dgs", "levelname": "ERROR", "exc_info": sys.exc_info()})
    assert "ValueError: invalid literal" in json.loads(formatter("json").format(record))["trace"]


def test_importing_dgs_prints_nothing_without_logging_being_set_up():
    code = "import dgs, logging; logging.getLogger('dgs.run').warning('lost')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_a_full_disk_does_not_end_a_run_by_its_log():
    log = RunLog(Path("/dev/full"), name="sums")
    log.info("a line that finds no room")
    log.close()
