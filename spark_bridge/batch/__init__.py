"""`runtime: {kind: spark}`: a plan over bounded data, on Spark alone.

- `batch_driver`: the run; `schedule`: its tasks and replays.
- `plan_units`: the plan cut into units that share nothing; `tasks`: one task, with `task_inputs`, `task_outputs`.
- `root_events`, `window_states`, `window_joins`, `replays`: units whose leaves accumulate between synchronising events.
"""
