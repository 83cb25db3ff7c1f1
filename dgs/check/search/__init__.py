"""The search for a small counterexample. Read in this order.

- `search`: looks for a scenario that breaks a law, for some seconds and from several seeds.
- `pruning`: removes parts that the counterexample does not need.
"""
