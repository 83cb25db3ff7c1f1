"""The runtime in simulated time, under drawn plans, orders and faults, and what judges its runs.

Who is who:

- A run: `simulation` makes one from a seed; `world` is what outlives its generations; `generation` is one tree of workers with
  everything that can happen next. Workers, hosts, coordinator and stop request are the real ones; a run is a function of its seed (R16).
- Played by: `driver` (takes reports, commits), `network` (frames on their way), `sources`, `outputs` and `sinks`, `store` (where
  checkpoints go: `directory` is the real store on a `disk` that fails), `user_code` (raises when a fuse has burnt down).
- Trouble: `faults` (which, and how often), `mishaps` (kills, lost frames, zombies, clean stops), `slowness` (what takes long).
- Judged by: `oracles`, from what a run left (`result`), against the sequential program.
- Many runs: `case` is a program with its input and `layout`s of plans; `campaign` runs many seeds and makes a failing one small;
  `random_plans` does so without faults. `dgs simulate` and `dgs.testing` call these.
"""
