"""Recovery: what a checkpoint is and when it is complete. Pure: no clock, no disk, no threads. Read in this order.

- `positions`: how far every stream, split and set of tags is in a state: state = fold of the events below its positions.
- `checkpoint`: a state with its positions, and what a store of checkpoints promises.
- `dealing`: to which split a row of a stream goes, from its number alone.
- `epochs`: which epoch an output belongs to, and what hosts report when one is closed.
- `coordinator`: brings the reports of a generation together; says when a checkpoint is complete.
- `resume_point`: where a generation begins, given what is committed.
- `outbox`: outputs that travel in a checkpoint because their sink has not accepted them yet.
- `stop_request`: a request to stop or to move, from being asked to the end of its generation.
"""
