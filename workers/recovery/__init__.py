"""Recovery: what a checkpoint is and when it is complete. Pure: no clock, no disk, no threads. Read in this order.

- `positions`: which events a state contains, by stream, split and set of tags: state = fold of the events below its positions;
  and to which split a row of a stream goes, from its number alone.
- `checkpoint`: a state with its positions, what a store of checkpoints promises, and the one in memory; where a generation begins.
- `coordinator`: collects the reports of a generation, says when a checkpoint is complete, and follows a request to stop.
- `outbox`: outputs that travel in a checkpoint because their sink has not accepted them yet.
"""
