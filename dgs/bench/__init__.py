"""Fair measuring of a job, for `dgs bench` and the experiments. Read in this order.

- `contestants`: the measured engines: the sequential program in a plain loop, and the runtimes.
- `measuring`: the same work for all, with interleaved repetitions and outputs compared every time.
- `fingerprint`: compares multisets of outputs, of any size, by a number.
"""
