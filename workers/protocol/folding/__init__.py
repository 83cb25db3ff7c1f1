"""Folding the user's `update` over the events that a mailbox lets go. Read in this order.

- `fold`: the table of which way is taken, and the ways over whole batches and windows.
- `update_loop`: event by event; the only place where single events exist while a program runs.
- `skipping`: the same, leaving out events that raise (`on_error: skip`).
"""
