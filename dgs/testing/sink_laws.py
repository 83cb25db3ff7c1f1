"""The laws of a sink: `check_sink` writes epochs through several objects, loses hosts, and reads the visible outputs.

>>> class Lists:
...     shown = []
...     def __init__(self): self.kept = {}
...     def write(self, batch, epoch): self.kept.setdefault(epoch, []).extend(batch.to_list())
...     def stage(self, epoch): return self.kept.pop(epoch, None)
...     def publish(self, staged): self.shown.extend(value for part in staged for value in part)
>>> check_sink(Lists, lambda: Lists.shown)
Traceback (most recent call last):
dgs.testing.broken_law.LawBroken: sink Lists breaks the law `once`: after the same was published again, 0 is there 2 times
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, NoReturn

from dgs import codec
from dgs.connectors import ConnectorError, Generation
from dgs.model.outputs import OutputBatch
from dgs.model.tags import Tag
from dgs.model.user_code import shown
from dgs.testing.broken_law import MOST_LINES, LawBroken, crashes_at
from dgs.workers.recovery.checkpoint import StagedPart
from dgs.workers.sinks.custom_sink import ConnectedSink

HOSTS = 2
PER_WRITE = HOSTS * 2
TAGS = (Tag("a"), Tag("b"))


def check_sink(
    make: Callable[[], Any],
    read: Callable[[], Iterable[Any]],
    *,
    value: Callable[[int], Any] = lambda number: number,
    ordered: bool = True,
) -> None:
    """Check the laws of a sink. Raises LawBroken, and UserCodeError if the sink itself raises.

    `make` returns a new object each time, as every process makes its own; the sink is empty at first. `read` returns the visible
    values. `value` returns the output for a number; outputs must differ. `ordered`: False if `read` has no order.
    """
    laws = _SinkLaws(make, read, value=value, ordered=ordered)
    if laws.publishes:
        laws.check_staging()
    else:
        laws.check_repeating()


class _SinkLaws:
    """The checks of one sink. Outputs are numbered in the order of writing. One host writes all outputs of a tag."""

    def __init__(
        self,
        make: Callable[[], Any],
        read: Callable[[], Iterable[Any]],
        *,
        value: Callable[[int], Any],
        ordered: bool,
    ) -> None:
        self._make, self._read, self._value = make, read, value
        self._ordered = ordered
        self._sample = make()
        self._numbers = count()
        self._tags: dict[bytes, int] = {}
        self._number_of: dict[bytes, int] = {}
        self._wanted: list[Any] = []
        self._generation = 0
        self._epoch = 0
        self._begun = self._opened()
        self.publishes = self._begun.publishes

    def check_staging(self) -> None:
        """Check a sink with `publish`, which holds outputs back until they are committed."""
        first = self._hosts()
        self._check_epochs(first)
        self._check_lost_generations()
        self._check_staging_again()
        self._check_crashes()

    def _check_epochs(self, hosts: Sequence[ConnectedSink]) -> None:
        """Write two epochs whose outputs come in turns. Publish the second after all its objects are gone."""
        driver = self._begun
        one, two = self._write(hosts, 1), self._write(hosts, 2)
        staged = self._stage(hosts, 1)
        self._check("hidden", "before epoch 1 was published")
        two += self._write(hosts, 2)
        self._publish(driver, staged, one)
        self._check("durable", "after epoch 1 was published")
        self._again("once", "after the same was published again", driver, staged)
        self._again(
            "once",
            "after the same was published again by an object that has not begun",
            self._opened(),
            staged,
        )
        staged = self._stage(hosts, 2)
        self._check("hidden", "before epoch 2 was published")
        hosts[0].abort()
        hosts[1].close()
        driver.close()
        self._publish(self._opened(), staged, two)
        self._check("durable", "after the hosts have aborted or closed and epoch 2 was published")
        self._epoch = 2

    def _check_lost_generations(self) -> None:
        """Lose a generation that has staged outputs, and let one of its hosts stage more."""
        lost = self._hosts()
        late = self._hosts(begins=False)
        self._write(lost, self._epoch + 1)
        self._stage(lost, self._epoch + 1)
        for host in lost:
            host.abort()
        self._write(late, self._epoch + 1)
        hosts = self._hosts()
        self._check("discard", "after a generation was lost that had staged epoch 3")
        written = self._write(hosts, self._epoch + 1)
        staged = self._stage(hosts, self._epoch + 1)
        self._stage(late, self._epoch + 1)
        self._check("hidden", "after a host of an older generation has staged")
        self._publish(self._opened(), staged, written)
        self._check("discard", "after epoch 3 was published, which a lost generation had staged too")
        self._epoch += 1
        self._hosts()
        self._check("discard", "after yet another generation has begun")

    def _check_staging_again(self) -> None:
        """Let two objects stage the same part, as when a task is tried again."""
        first = self._hosts()
        second = self._hosts(begins=False)
        epoch = self._epoch + 1
        written = self._write(first, epoch)
        self._stage(first, epoch)
        self._write(second, epoch, values=written)
        self._publish(self._opened(), self._stage(second, epoch), written)
        self._check("once", "after a part was staged again in place of what was lost")
        self._epoch = epoch

    def _check_crashes(self) -> None:
        """Crash at every line of `publish`, and call it again."""
        for line in range(1, MOST_LINES):
            hosts, epoch = self._hosts(), self._epoch + 1
            written = self._write(hosts, epoch)
            staged = self._stage(hosts, epoch)
            driver = self._opened()
            crashed = crashes_at(line, self._sample, lambda d=driver, s=staged: d.publish(s))  # type: ignore[misc]
            self._publish(self._opened(), staged, written)
            self._check("once", f"after a crash at line {line} of `publish`, which was then called again")
            self._epoch = epoch
            if not crashed:
                return

    def check_repeating(self) -> None:
        """Check a sink without `publish`, which shows outputs at once."""
        hosts = self._hosts()
        self._wanted += self._write(hosts, 1)
        self._stage(hosts, 1)
        self._check("durable", "after epoch 1 was staged")
        repeated = self._write(hosts, 2)
        self._stage(hosts, 2)
        for host in hosts:
            host.abort()
        self._wanted += repeated
        self._check("durable", "after epoch 2 was staged and the hosts have aborted")
        self._epoch = 1
        hosts = self._hosts()
        self._write(hosts, 2, values=repeated)
        self._wanted += self._write(hosts, 2)
        self._stage(hosts, 2)
        for host in hosts:
            host.close()
        self._check("once", "after the outputs of epoch 2 came again, with the same ids")

    def _opened(self) -> ConnectedSink:
        sink = self._make()
        return ConnectedSink(sink, ref=type(sink).__name__, args={}, program="of the suite")

    def _hosts(self, *, begins: bool = True) -> list[ConnectedSink]:
        """Return new objects for the hosts of a new generation, or without `begins` of the same generation."""
        self._generation += begins
        generation = Generation("run", self._generation, self._epoch)
        if begins:
            self._begun = self._opened()
            self._begun.begin(generation)
        hosts = [self._opened() for _ in range(HOSTS)]
        for number, host in enumerate(hosts):
            host.open(generation, number)
        return hosts

    def _write(
        self, hosts: Sequence[ConnectedSink], epoch: int, values: Sequence[Any] | None = None
    ) -> list[Any]:
        """Let each host write two outputs of an event of its own stream and tag, or repeat earlier ones; return the values.

        The ids of these four differ in the stream or in the index only.
        """
        numbers = (
            [next(self._numbers) for _ in range(PER_WRITE)]
            if values is None
            else [self._number_of[codec.encode(value)] for value in values]
        )
        for host, (sink, tag) in enumerate(zip(hosts, TAGS, strict=True)):
            mine = numbers[host::HOSTS]
            events = [n // PER_WRITE for n in mine]
            index = [n % PER_WRITE // HOSTS for n in mine]
            values = [self._value(n) for n in mine]
            sink.write(
                OutputBatch.of(
                    f"s{host}", rank=host, tags=[tag], ts=events, seq=events, index=index, values=values
                ),
                epoch,
            )
        for place, number in enumerate(numbers):
            one = codec.encode(self._value(number))
            self._tags[one], self._number_of[one] = place % HOSTS, number
        return [self._value(number) for number in numbers]

    def _stage(self, hosts: Sequence[ConnectedSink], epoch: int) -> list[bytes]:
        try:
            files = [file for host in hosts for file in host.stage(epoch).files]
        except ConnectorError as error:
            raise LawBroken("sink", self._sample, "plain", str(error.problem)) from error
        return [file.staged for file in files if isinstance(file, StagedPart)]

    def _publish(self, driver: ConnectedSink, staged: Sequence[bytes], values: Sequence[Any]) -> None:
        driver.publish(staged)
        self._wanted += values

    def _again(self, law: str, when: str, driver: ConnectedSink, staged: Sequence[bytes]) -> None:
        driver.publish(staged)
        self._check(law, when)

    def _check(self, law: str, when: str) -> None:
        """Compare the visible outputs with those that must be visible."""
        found = list(self._read())
        wanted, got = (Counter(map(codec.encode, values)) for values in (self._wanted, found))
        for one in got - wanted:
            known = shown(codec.decode(one))
            if one in wanted:
                self._broken(law, f"{when}, {known} is there {got[one]} times")
            self._broken(law, f"{when}, {known} is visible, but must not be")
        for one in wanted - got:
            self._broken(law, f"{when}, {shown(codec.decode(one))} is missing")
        if self._ordered:
            self._check_order(found, when)

    def _check_order(self, found: Sequence[Any], when: str) -> None:
        places: Mapping[bytes, int] = {codec.encode(value): place for place, value in enumerate(self._wanted)}
        last: dict[int, int] = {}
        for value in found:
            one = codec.encode(value)
            tag, place = self._tags[one], places[one]
            if place < last.get(tag, -1):
                before = shown(self._wanted[last[tag]])
                self._broken(
                    "order",
                    f"{when}, {shown(value)} comes after {before}, an output of the same tag that was written later",
                )
            last[tag] = place

    def _broken(self, law: str, problem: str) -> NoReturn:
        raise LawBroken("sink", self._sample, law, problem)
