"""The story of a run in its directory."""

import pytest

from dgs.errors import StalledError
from dgs.workers.protocol.story_words import StoryEntry
from dgs.workers.runtime.run_story import LONGEST_LINE, RunStory, in_a_line, read_story

AT_HOST = StoryEntry(1.0, 1, 0, "w1 closes epoch 1", ("w1",))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "story.jsonl"


def test_story_has_the_notes_of_driver_and_hosts_in_the_order_of_time(path):
    story = RunStory(path)
    story.begin(1)
    story.says("begins")
    story.hosts = lambda: [AT_HOST]
    story.write()
    assert [(entry.host, entry.generation, entry.text) for entry in read_story(path)] == [
        (0, 1, "w1 closes epoch 1"),
        (None, 1, "begins"),
    ]
    assert read_story(path)[0] == AT_HOST
    assert list(path.parent.iterdir()) == [path]


def test_notes_of_hosts_are_written_when_the_hosts_are_lost(path):
    story = RunStory(path)
    answers = [[AT_HOST]]
    story.hosts = answers.pop
    story.keep()
    story.write()
    story.write()
    assert read_story(path) == [AT_HOST]


def test_another_generation_has_nothing_to_tell_of_the_hosts_before(path):
    story = RunStory(path)
    story.hosts = lambda: [AT_HOST]
    story.begin(2)
    story.write()
    assert read_story(path) == []


def test_story_of_a_run_that_ended_well_is_removed(path):
    story = RunStory(path)
    story.says("begins")
    story.write()
    story.forget()
    story.forget()
    assert not path.exists()


def test_run_without_a_directory_writes_nothing():
    story = RunStory(None)
    story.hosts = lambda: pytest.fail("asked in vain")
    story.keep()
    story.write()
    story.forget()


def test_story_that_cannot_be_written_is_none(tmp_path):
    story = RunStory(tmp_path / "missing" / "story.jsonl")
    story.says("begins")
    story.write()
    assert read_story(tmp_path / "missing" / "story.jsonl") == []


@pytest.mark.parametrize("text", ["", "[", '{"time": 1}', "{}", "[]"])
def test_file_that_is_no_story_has_no_entries(path, text):
    path.write_text(text)
    assert read_story(path) == []


def test_error_is_reported_in_a_line_without_the_trace():
    assert in_a_line(StalledError(reason="two\nlines")).startswith("StalledError: ")
    assert "\n" not in in_a_line(StalledError(reason="two\nlines"))
    assert len(in_a_line(ValueError("x" * 1_000))) == LONGEST_LINE
