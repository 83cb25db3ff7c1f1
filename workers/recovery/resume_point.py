"""The start of a run, given what was committed last and the checkpoint whose state is used.

They are one and the same unless the newest state is damaged, or was not saved. Then outputs between the two are computed again
and must not be committed again; what idempotent sinks have not accepted of them is in the newest outbox (R7).

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
    """Return the point at which a generation begins. `newest`: what was committed last; `used`: whose state there is.

    It is final if nothing remains to be computed: the streams had ended, and their last state is there or was not kept.
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
