"""Fair measuring of a job, for `dgs bench` and the experiments. Read in this order.

- `contestants`: what is measured: the sequential program in a plain loop, and the runtimes.
- `measuring`: the same work for all, repetitions interleaved, outputs compared every time.
- `fingerprint`: multisets of outputs compared by a number, however many they are.
"""
