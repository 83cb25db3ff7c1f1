"""The same program in another interpreter, for the law that the place and the time of a run make no difference.

- `another_process`: a fresh interpreter with another hash seed, which is asked to update, fork and join.
- `shifted_clock`: its clocks, moved on by more than a year, in another time zone.
"""
