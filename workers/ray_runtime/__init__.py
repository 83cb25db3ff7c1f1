"""The Ray runtime: hosts as Ray actors. Nothing else imports ray. Read in this order.

- `ray_driver`: `run_ray` drives generations; it polls the hosts, commits what is complete, and ends them.
- `actor`: one host: the engine's loop in one thread, frames of others and questions of the driver in two more.
- `hosts`: the hosts as the driver sees them: every question has a deadline, and a host that does not answer is lost.
- `pool`: hosts that are started in advance, for the generation after a loss.
- `cluster`: Ray itself, started or connected to: on loopback, with a token, without a dashboard.
"""
