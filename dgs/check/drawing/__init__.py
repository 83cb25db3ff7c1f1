"""Drawing scenarios with Hypothesis, the simplest first. Read in this order.

- `scenarios`: events, forks with independent sides, and histories made of them.
- `sample_tags`: the tags that a program is checked on. `sample_payloads`: its payloads.
- `strategies`: values of a type. `constants`: the values that the program's own code names.
- `time_steps`: the time between events, for programs that use `event.ts`.
"""
