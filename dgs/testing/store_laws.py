"""The laws of a store of checkpoints: `check_store` commits, reopens the store, opens it twice, and lets commits crash.

>>> from dgs.connectors import resume_point
>>> class Forgetful:
...     kept, generations = [], []
...     def begin(self):
...         self.generations.append(1)
...         newest = self.kept[0] if self.kept else None
...         return resume_point(len(self.generations), newest, newest)
...     def commit(self, checkpoint): self.kept.append(checkpoint)
...     def close(self): pass
>>> check_store(Forgetful)
Traceback (most recent call last):
dgs.testing.broken_law.LawBroken: store Forgetful breaks the law `newest`: after epoch 2 was committed, `begin` returns epoch 1
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, NoReturn

from dgs import codec
from dgs.connectors import Checkpoint, ResumePoint, resume_point
from dgs.errors import CheckpointBusyError, FencedError
from dgs.model.order import OrderKey
from dgs.model.outputs import OutputBatch
from dgs.model.tag_sets import TagSet
from dgs.model.tags import Tag
from dgs.model.user_code import shown
from dgs.testing.broken_law import MOST_LINES, LawBroken, crashes_at
from dgs.workers.recovery.positions import Layer, Part, Positions

SIZES = (*(2**power + 1 for power in range(8, 21)), 3 * 2**20)
"""Sizes of states in bytes, to find a store that takes or keeps only a kilobyte, a row or a page."""

OF_THE_RECORD = ("published", "holds")
"""Fields of a ResumePoint that come from the record in the directory of the run, and from no store of a user's."""


def check_store(make: Callable[[], Any]) -> None:
    """Check the laws of a store of checkpoints. Raises LawBroken, and errors of the store itself.

    `make` returns a new object each time, as every process makes its own. The store is empty at first.
    """
    laws = _StoreLaws(make)
    laws.check_newest()
    laws.check_whole()
    laws.check_without_states()
    laws.check_two()
    laws.check_crashes()
    laws.check_final()


class _StoreLaws:
    """The checks of one store. `newest`: the last committed checkpoint. `used`: the last one with a state."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._sample = make()
        self._generation = 0
        self._newest: Checkpoint | None = None
        self._used: Checkpoint | None = None

    def check_newest(self) -> None:
        """Open an empty store, and open it again after each commit."""
        store = self._make()
        self._begin(store, "newest", "in an empty store")
        store.close()
        for _ in range(3):
            store = self._make()
            self._begin(store, "newest", self._after())
            self._commit(store)
            store.close()
        store = self._make()
        self._begin(store, "newest", self._after())
        for _ in range(3):
            self._commit(store)
        self._begin(store, "newest", f"{self._after()} by an object that begins again")
        store.close()
        self._reopened("newest", self._after())

    def check_whole(self) -> None:
        """Commit states of all sizes."""
        for state in _states():
            store = self._make()
            self._begin(store, "whole", self._after())
            self._commit(store, state)
            store.close()
            self._reopened("whole", f"after a state of {len(state):,} bytes was committed")

    def check_without_states(self) -> None:
        """Commit checkpoints without a state, as when `checkpoint.when` says that none is worth saving."""
        store = self._make()
        self._begin(store, "whole", self._after())
        for _ in range(2):
            self._commit(store, None)
        store.close()
        self._reopened("whole", "after two epochs without a state were committed")

    def check_two(self) -> None:
        """Open the store with a second object while the first has it, as another run or a restarted one would."""
        first, second = self._make(), self._make()
        self._begin(first, "alone", self._after())
        try:
            self._begin(second, "alone", "while another object has the store")
        except CheckpointBusyError:
            first.close()
            self._begin(second, "alone", "after the first of two objects was closed")
            self._commit(second)
            second.close()
            return
        self._commit(second)
        try:
            first.commit(self._next(b"of an older generation"))
        except FencedError:
            pass
        else:
            self._broken(
                "alone", "two objects have begun, and the older one could commit: it must raise FencedError"
            )
        second.close()
        first.close()
        self._reopened("alone", "after a commit of an older generation was refused")

    def check_crashes(self) -> None:
        """Crash at every line of `commit`."""
        for line in range(1, MOST_LINES):
            store = self._make()
            self._begin(store, "atomic", self._after())
            checkpoint = self._next(b"state of epoch %d" % self._next_epoch)
            crashed = crashes_at(line, store, lambda s=store, c=checkpoint: s.commit(c))  # type: ignore[misc]
            with suppress(Exception):
                store.close()  # a dead process loses its locks
            store = self._make()
            point = self._begun(store)
            store.close()
            if point.epoch == checkpoint.epoch:
                self._newest = self._used = checkpoint
            elif not crashed:
                self._broken(
                    "newest",
                    f"epoch {checkpoint.epoch} was committed, but `begin` returns epoch {point.epoch}",
                )
            self._compare(
                point, "atomic", f"after a crash at line {line} of the commit of epoch {checkpoint.epoch}"
            )
            if not crashed:
                return

    def check_final(self) -> None:
        """Commit the checkpoint of a run that is complete."""
        store = self._make()
        self._begin(store, "whole", self._after())
        self._newest = self._used = replace(self._next(b"the last state"), is_final=True)
        store.commit(self._newest)
        store.close()
        self._reopened("whole", f"after epoch {self._newest.epoch}, the final one, was committed")

    @property
    def _next_epoch(self) -> int:
        return 1 if self._newest is None else self._newest.epoch + 1

    def _next(self, state: bytes | None) -> Checkpoint:
        epoch = self._next_epoch
        key = OrderKey(10 * epoch, 0, epoch)
        positions = Positions({"s": (Layer(1, (Part(0, TagSet.everything(), key),)),)})
        late = OutputBatch.of("s", rank=0, tags=[Tag("a")], ts=[1], seq=[epoch], index=[0], values=[epoch])
        return Checkpoint(epoch, state, positions, (), (late,), {"s": {"rows": epoch}}, events=epoch)

    def _commit(self, store: Any, state: bytes | None = b"a state") -> None:
        checkpoint = self._next(None if state is None else state + b"%d" % self._next_epoch)
        store.commit(checkpoint)
        self._newest = checkpoint
        self._used = self._used if state is None else checkpoint

    def _after(self) -> str:
        return (
            "in an empty store" if self._newest is None else f"after epoch {self._newest.epoch} was committed"
        )

    def _begun(self, store: Any) -> ResumePoint:
        point: ResumePoint = store.begin()
        if not isinstance(point, ResumePoint):
            self._broken("newest", f"`begin` returns {type(point).__name__}, not a ResumePoint")
        if point.generation <= self._generation:
            self._broken("alone", f"generation {point.generation} begins after generation {self._generation}")
        self._generation = point.generation
        return point

    def _begin(self, store: Any, law: str, when: str) -> None:
        self._compare(self._begun(store), law, when)

    def _reopened(self, law: str, when: str) -> None:
        store = self._make()
        self._begin(store, law, when)
        store.close()

    def _compare(self, point: ResumePoint, law: str, when: str) -> None:
        wanted = resume_point(point.generation, self._newest, self._used)
        if point.epoch != wanted.epoch:
            self._broken(law, f"{when}, `begin` returns epoch {point.epoch}")
        for name in (field.name for field in fields(ResumePoint) if field.name not in OF_THE_RECORD):
            one, other = getattr(wanted, name), getattr(point, name)
            if codec.encode(one) != codec.encode(other):
                self._broken(law, f"{when}, `{name}` is {shown(other)}, but must be {shown(one)}")

    def _broken(self, law: str, problem: str) -> NoReturn:
        raise LawBroken("store", self._sample, law, problem)


def _states() -> Iterator[bytes]:
    """Yield states with all bytes, and of all sizes. No two parts of a large state are alike, so exchanged parts are noticed."""
    yield from (b"", bytes(range(256)), b"\n\r\0")
    drawn = random.Random(0)  # noqa: S311 - of no use to an attacker
    yield from (drawn.randbytes(size) for size in SIZES)
