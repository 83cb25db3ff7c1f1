"""`runtime: {kind: spark}`: a plan over data that ends, on Spark alone.

- `batch_driver`: the run; `schedule`: which tasks it has and what becomes of their answers.
- `plan_units`: the plan cut into units that share nothing; `tasks`: what one task does, with `task_inputs`, `task_outputs`, `task_errors`.
- `window_states`, `window_joins`, `replay`: units whose leaves accumulate between synchronising events.
"""
