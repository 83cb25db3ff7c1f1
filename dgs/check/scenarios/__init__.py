"""Scenarios, on which laws are checked. Read in this order.

- `scenario`: the history of a state, and the events after it.
- `world`: the program, its tags and payloads, and calls of user code that report its exceptions.
- `reachable`: makes the states that scenarios describe, by running the program.
- `equality`: equality of states and outputs, and their differences.
"""
