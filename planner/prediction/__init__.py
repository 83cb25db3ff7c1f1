"""What a plan costs, before it runs. Read in this order.

- `costs`: seconds per event, per synchronisation, per byte: of a machine and of a program.
- `traffic`: the lanes of each worker with their rates, and how often they cut each other into stretches.
- `model`: the throughput of a plan, and what bounds it.
"""
