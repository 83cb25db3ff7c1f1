"""The Ray runtime: hosts as Ray actors. Nothing else imports ray. Read in this order.

- `ray_driver`: `run_ray` drives generations: it polls the hosts, commits complete checkpoints, and ends the hosts.
- `actor`: one host, with the engine's loop in one thread, frames in a second one and the driver's calls in a third.
- `hosts`: the hosts as the driver sees them: every call has a deadline, and a host that does not answer is lost.
- `pool`: hosts without work, for the generation after a loss.
- `cluster`: Ray itself, which is started or connected to: on loopback, with a token, without a dashboard.
- `shipped_trial`: the trial of a program that no other process can import. `machine_costs`: how fast this machine synchronises.
"""
