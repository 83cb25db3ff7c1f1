"""Trials: what the functions of a program cost, on the first events of its streams. Read in this order.

- `trial`: a trial in this process.
- `trial_process`: the same in a separate process, where a program may do anything. It imports little, to start quickly.
"""
