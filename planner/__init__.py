"""The planner: from a program and its streams to a valid synchronization plan (Section 3).

- `plan`: the tree of workers; `plan_data`, `tags_data`: the same as plain data of plan.yaml.
- `topology`: streams and machines, and the traffic of each worker.
- `optimizers`: from the dependence relation and the rates to a plan.
- `validity`: the check of every plan before anything runs (V1, V2, structure, coverage).
- `placement`: workers on machines and host processes. `prediction`: the cost of a plan before it runs.
- `drawing`: plans and dependence graphs as text, Mermaid, DOT and SVG, and explanations.
"""
