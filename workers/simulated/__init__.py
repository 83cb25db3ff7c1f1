"""The runtime in simulated time, under random plans, orders and faults, and the oracles that judge its runs.

Who is who:

- A run: `simulation` makes one from a seed. `world` outlives its generations. `generation` is one tree of workers with all steps
  that it can take next. Workers, hosts, coordinator and stop request are the real ones. A run is a function of its seed (R16).
- Simulated parts: `driver` (takes reports, commits), `network` (frames on their way), `sources`, `outputs`, `sinks`, `store`
  (checkpoints; `directory` is the real store on a `disk` that fails), `user_code` (raises at a chosen call).
- Trouble: `faults` (kinds and amounts), `mishaps` (kills, lost frames, zombies, clean stops), `slowness` (parts that are slow).
- Judges: `oracles` compare the `result` of a run with the sequential program.
- Many runs: `case` is a program with its input and `layout`s of plans; `campaign` runs many seeds and shrinks a failing case;
  `random_plans` does so without faults. `dgs simulate` and `dgs.testing` call these.
"""
