"""The store in memory: the last checkpoint, as long as the driver lives."""

from dgs.workers.recovery.checkpoint import MemoryStore
from tests.workers.checkpoints.saving import assert_whole, checkpoint, staged


def test_memory_store_begins_empty_and_then_from_the_last_checkpoint():
    store = MemoryStore()
    assert_whole(store.begin(), 0)
    store.commit(checkpoint(1))
    store.commit(checkpoint(2))
    point = store.begin()
    assert_whole(point, 2)
    assert point.generation > 1


def test_memory_store_publishes_when_it_commits_and_when_it_begins():
    published = []
    store = MemoryStore(published.extend)
    store.begin()
    store.commit(checkpoint(1))
    store.begin()
    assert published == [staged(1), staged(1)]


def test_memory_store_resumes_outputs_without_state_from_the_state_before():
    store = MemoryStore()
    store.begin()
    store.commit(checkpoint(1, state=None))
    assert_whole(store.begin(), 1, used=0)
    store.commit(checkpoint(2))
    store.commit(checkpoint(3, state=None, is_final=True))
    point = store.begin()
    assert_whole(point, 3, used=2)
    assert not point.is_final  # the last state must be recomputed


def test_memory_store_knows_that_a_run_has_finished():
    store = MemoryStore()
    store.begin()
    store.commit(checkpoint(1, is_final=True))
    assert store.begin().is_final
