"""What the laws are asked about. Read in this order.

- `scenario`: how a state came to be, and what happens to it then.
- `world`: the program, its tags and payloads, and calls of user code that say what it raised.
- `reachable`: the states that scenarios describe, made by running the program.
- `equality`: when two states or outputs are the same, and what differs where they are not.
"""
