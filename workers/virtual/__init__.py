"""The runtime in virtual time: the real workers and hosts, with costs in place of the work. It checks the model of plans.

- `stand_in`: a program that spends another program's costs in place of computing. `drawn`: random events at given rates.
- `virtual_run`: hosts that take turns in virtual time. `virtual_figures`: throughput, latency and bytes of a plan.
"""
