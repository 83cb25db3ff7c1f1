"""Folding the user's `update` over the events that a mailbox releases. Read in this order.

- `fold`: the table that chooses how to fold, and folding over whole batches.
- `joined_windows`: folding many windows at once, and joining their states before the event that ends them.
- `to_compile`: an update as machine code, where one is to be made.
- `update_loop`: folding event by event; the only place where single events exist while a program runs.
- `skipping`: folding that leaves out events that raise (`on_error: skip`).
"""
