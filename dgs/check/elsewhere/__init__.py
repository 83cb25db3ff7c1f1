"""The same program in another interpreter, for the law that results do not depend on the process or the time. Read in this order.

- `another_process`: a fresh interpreter with another hash seed, which runs update, fork and join.
- `shifted_clock`: moves its clocks on by more than a year, in another time zone.
"""
