"""The suite for stores of checkpoints: our own stores keep its laws, and each law finds a store that breaks it."""

from dataclasses import replace

import pytest

from dgs import codec
from dgs.connectors import Checkpoint, CheckpointBusyError, FencedError, resume_point
from dgs.errors import CodecError
from dgs.model.identity import ProgramIdentity
from dgs.testing import LawBroken, check_store
from dgs.workers.checkpoints.directory_store import DirectoryStore
from dgs.workers.recovery.checkpoint import MemoryStore
from dgs.workers.simulated.store import KeptCheckpoints, KeptStore
from tests.selection import rest_is_slow


class Files:
    """Two files, `generation` and `saved`, each replaced as a whole: the correct base of the wrong stores."""

    def __init__(self, folder):
        self.folder, self.generation = folder, 0

    def read(self, name, default):
        path = self.folder / name
        return codec.decode(path.read_bytes()) if path.exists() else default

    def write(self, name, value):
        draft = self.folder / f"{name}.draft"
        draft.write_bytes(codec.encode(value))
        draft.replace(self.folder / name)

    def begin(self):
        self.generation = self.read("generation", 0) + 1
        self.write("generation", self.generation)
        return resume_point(self.generation, *self.read("saved", (None, None)))

    def commit(self, checkpoint):
        newest = self.read("generation", 0)
        if newest != self.generation:
            raise FencedError(path=self.folder, generation=self.generation, newest=newest)
        _, used = self.read("saved", (None, None))
        self.write("saved", (checkpoint, used if checkpoint.state is None else checkpoint))

    def close(self):
        pass


class Locked(Files):
    """The same, but a second object cannot open it."""

    def begin(self):
        lock = self.folder / "lock"
        if lock.exists() and not self.generation:
            raise CheckpointBusyError(path=self.folder, holder="another object")
        lock.touch()
        return super().begin()

    def close(self):
        if self.generation:
            (self.folder / "lock").unlink(missing_ok=True)


@pytest.mark.parametrize("store", [Files, Locked])
def test_store_that_keeps_the_laws_passes(tmp_path, store):
    check_store(lambda: store(tmp_path))


@pytest.mark.slow
def test_our_directory_keeps_the_laws(tmp_path):
    identity = ProgramIdentity("Sums", 1, {})
    check_store(lambda: DirectoryStore(tmp_path, identity=identity, publish=lambda _files: None))


def test_the_simulated_store_keeps_the_laws():
    kept = KeptCheckpoints()

    check_store(lambda: KeptStore(kept, publish=lambda _files: None))


class Shared:
    """One store in memory, which objects use in turn, like successive processes of a driver."""

    def __init__(self, store):
        self.store, self.generation = store, 0

    def begin(self):
        point = self.store.begin()
        self.generation = self.store.newest_generation = point.generation
        return point

    def commit(self, checkpoint):
        newest = self.store.newest_generation
        if newest != self.generation:
            raise FencedError(path="memory", generation=self.generation, newest=newest)
        self.store.commit(checkpoint)

    def close(self):
        pass


def test_the_store_in_memory_returns_the_last_commit():
    store = MemoryStore()
    check_store(lambda: Shared(store))


# mutants: each breaks one law


class ForgetsTheNewest(Files):
    """Notices a commit only with the next one."""

    def commit(self, checkpoint):
        super().commit(checkpoint)
        held = self.read("held", None)
        self.write("held", self.read("saved", None))
        if held is not None:
            self.write("saved", held)


class ForgetsWhatABeginHasSeen(Files):
    """A second `begin` of an object returns the same as the first."""

    point = None

    def begin(self):
        now = super().begin()
        self.point = self.point or now
        return replace(self.point, generation=now.generation)


class TearsLargeStates(Files):
    def begin(self):
        point = super().begin()
        return replace(point, state=None if point.state is None else point.state[:65536])


class TearsStatesOfSomeSizes(Files):
    """Tears states of more than a few hundred bytes, but not those above a megabyte, which it stores elsewhere."""

    def begin(self):
        point = super().begin()
        size = len(point.state or b"")
        return replace(point, state=point.state[:300]) if 300 < size < 2**20 else point


class MixesPartsOfLargeStates(Files):
    """Keeps parts of 64 KiB, and reads them in the order of their names: 10 before 2."""

    def begin(self):
        point = super().begin()
        parts = [(point.state or b"")[at : at + 65536] for at in range(0, len(point.state or b""), 65536)]
        by_name = sorted(range(len(parts)), key=str)
        return replace(point, state=point.state and b"".join(parts[one] for one in by_name))


class TakesStatesForText(Files):
    def commit(self, checkpoint):
        state = checkpoint.state
        super().commit(replace(checkpoint, state=state and state.replace(b"\r", b"")))


class TakesEmptyStatesForNone(Files):
    def commit(self, checkpoint):
        has_state = bool(checkpoint.state.strip(b"0123456789")) if checkpoint.state else False
        super().commit(checkpoint if has_state else replace(checkpoint, state=None))


class MixesEpochs(Files):
    """Returns the state of the last commit that had one, with the positions of the newest commit."""

    def begin(self):
        point = super().begin()
        return replace(point, positions=point.committed)


class LosesTheOutbox(Files):
    def begin(self):
        return replace(super().begin(), outbox=())


class LosesOldStates(Files):
    def commit(self, checkpoint):
        super().commit(checkpoint)
        if checkpoint.state is None:
            self.write("saved", (checkpoint, None))


class LetsTwoIn(Files):
    def commit(self, checkpoint):
        self.generation = self.read("generation", 0)
        super().commit(checkpoint)


class DoesNotCount(Files):
    def begin(self):
        return replace(super().begin(), generation=1)


class NeverLetsGo(Locked):
    def close(self):
        pass


class WritesStateAndRecordApart(Files):
    """Two files that belong together: a crash between them mixes them."""

    def begin(self):
        point = super().begin()
        state = self.read("state", None)
        return point if point.state is None else replace(point, state=state)

    def commit(self, checkpoint):
        if checkpoint.state is not None and self.generation == self.read("generation", 0):
            self.write("state", checkpoint.state)
        super().commit(checkpoint)


class WritesInPlace(Files):
    """A crash leaves half of it."""

    def write(self, name, value):
        data = codec.encode(value)
        path = self.folder / name
        path.write_bytes(data[: len(data) // 2])
        path.write_bytes(data)

    def read(self, name, default):
        try:
            return super().read(name, default)
        except CodecError:
            return default


class ForgetsThatTheRunIsOver(Files):
    def commit(self, checkpoint):
        super().commit(replace(checkpoint, is_final=False))


class ReturnsACheckpoint(Files):
    def begin(self):
        super().begin()
        return Checkpoint(0, None, None)


WRONG = [
    (ForgetsTheNewest, "newest", "after epoch 2 was committed, `begin` returns epoch 1"),
    (ForgetsWhatABeginHasSeen, "newest", "by an object that begins again"),
    (TearsLargeStates, "whole", "after a state of 65,537 bytes was committed, `state` is"),
    (TearsStatesOfSomeSizes, "whole", "after a state of 513 bytes was committed, `state` is"),
    (MixesPartsOfLargeStates, "whole", "after a state of 1,048,577 bytes was committed, `state` is"),
    (TakesStatesForText, "whole", "after a state of 256 bytes was committed, `state` is"),
    (TakesEmptyStatesForNone, "whole", "after a state of 0 bytes was committed"),
    (MixesEpochs, "whole", "after two epochs without a state were committed, `positions` is"),
    (LosesTheOutbox, "newest", "after epoch 1 was committed, `outbox` is"),
    (LosesOldStates, "whole", "after two epochs without a state were committed, `state` is None"),
    (LetsTwoIn, "alone", "two objects have begun, and the older one could commit"),
    (DoesNotCount, "alone", "generation 1 begins after generation 1"),
    (WritesStateAndRecordApart, "atomic", "after a crash at line"),
    (WritesInPlace, "atomic", "after a crash at line"),
    (ForgetsThatTheRunIsOver, "whole", "`is_final` is False, but must be True"),
    (ReturnsACheckpoint, "newest", "`begin` returns Checkpoint, not a ResumePoint"),
]


@pytest.mark.parametrize(
    ("store", "law", "problem"),
    rest_is_slow(WRONG, keep=len(WRONG) // 2),
    ids=[store.__name__ for store, *_ in WRONG],
)
def test_each_law_finds_the_store_that_breaks_it(tmp_path, store, law, problem):
    with pytest.raises(LawBroken) as caught:
        check_store(lambda: store(tmp_path))
    assert (caught.value.law, problem in str(caught.value)) == (law, True), str(caught.value)
    assert str(caught.value).startswith(f"store {store.__name__} breaks the law `{law}`: ")


def test_store_that_is_never_let_go_shows(tmp_path):
    with pytest.raises(CheckpointBusyError):
        check_store(lambda: NeverLetsGo(tmp_path))
