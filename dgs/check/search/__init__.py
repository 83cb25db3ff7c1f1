"""The search for a counterexample, and making it small.

- `search`: looks for a scenario in which a law does not hold, for some seconds and from several seeds.
- `pruning`: leaves out what the counterexample does not need.
"""
