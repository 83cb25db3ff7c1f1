"""Predictions of the cost of plans, before anything runs. Read in this order.

- `costs`: seconds per event, per synchronisation, per byte: of a machine and of a program.
- `traffic`: the lanes of each worker with their rates, and how often they cut each other into stretches.
- `exchange`: what hosts read, and what they send each other.
- `model`: the throughput of a plan, and its bound. `choice`: the fastest of several plans.
"""
