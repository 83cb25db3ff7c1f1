"""The start of a run, given the last committed checkpoint and the one whose state is used.

They are the same checkpoint unless the newest state is damaged or was not saved. Then outputs between the two are computed again
and must not be committed again. Those that idempotent sinks have not accepted are in the newest outbox (R7).

>>> from dgs.model.order import OrderKey
>>> from dgs.model.tag_sets import TagSet
>>> from dgs.workers.recovery.positions import Layer, Part, Positions
>>> def at(ts): return Positions({"s": (Layer(1, (Part(0, TagSet.everything(), OrderKey(ts, 0, 0)),)),)})
>>> point = resume_point(3, Checkpoint(2, None, at(20)), Checkpoint(1, b"older", at(10)))
>>> point.epoch, point.state, point.positions == at(10), point.committed == at(20)
(2, b'older', True, True)
"""

from __future__ import annotations

from dgs.workers.recovery.checkpoint import Checkpoint, ResumePoint


def resume_point(generation: int, newest: Checkpoint | None, used: Checkpoint | None) -> ResumePoint:
    """Return the point at which a generation begins. `newest`: the last committed checkpoint; `used`: the newest with a state.

    The point is final if nothing is left to compute: the streams had ended, and their last state is here or no state was kept.
    """
    if newest is None:
        return ResumePoint(generation)
    is_final = newest.is_final and (used is None or used.epoch == newest.epoch)
    if used is None:
        return ResumePoint(
            generation, newest.epoch, committed=newest.positions, outbox=newest.outbox, is_final=is_final
        )
    return ResumePoint(
        generation,
        newest.epoch,
        used.state,
        used.positions,
        newest.positions,
        newest.outbox,
        used.sources,
        used.events,
        is_final,
    )
