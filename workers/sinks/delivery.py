"""The promises of sinks about repeats after a crash, as a sentence.

>>> sinks = [SinkConfig.model_validate({"callable": {"ref": "send.py:post"}}), SinkConfig.model_validate("stdout")]
>>> print(deliveries(sinks, "exactly_once"))
after a crash, sink `callable: send.py:post` may see outputs again (at least once, with the same ids); the others see each exactly once
>>> deliveries(sinks[1:], "exactly_once") is None
True
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from dgs.job.schema import SinkConfig
from dgs.workers.sinks.custom_sink import connected_sink

CENTRAL = ("memory", "stdout")
"""Kinds of sinks in the caller's process instead of the hosts."""

Delivery = Literal["exactly_once", "at_least_once"]


def is_exactly_once(config: SinkConfig, delivery: Delivery, base_dir: Path = Path()) -> bool:
    """Return whether a sink of a checkpointed run gets each output exactly once, whatever crashes.

    Files are committed with a checkpoint, and databases remember marks. Sinks of the caller hold outputs back until they are
    committed, if `delivery` says so. A function cannot do any of this. Custom sinks can if they publish. `base_dir`: the start
    of their relative paths. Raises ProgramImportError.
    """
    if config.kind in CENTRAL:
        return delivery == "exactly_once"
    if config.kind == "custom":
        return connected_sink(config.details.ref, config.details.args, base_dir, program="").publishes
    return config.kind != "callable"


def deliveries(sinks: Sequence[SinkConfig], delivery: Delivery, base_dir: Path = Path()) -> str | None:
    """Return a sentence on the sinks that give less than `delivery: exactly_once`, None if there are none."""
    if delivery == "at_least_once":
        return None
    weak = [config for config in sinks if not is_exactly_once(config, delivery, base_dir)]
    if not weak:
        return None
    named = ", ".join(f"`{config.kind}: {config.details.ref}`" for config in weak)
    rest = "" if len(weak) == len(sinks) else "; the others see each exactly once"
    return (
        f"after a crash, sink{'s' if len(weak) > 1 else ''} {named} may see outputs again"
        f" (at least once, with the same ids){rest}"
    )
