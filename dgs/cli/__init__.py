"""The command line: one module per verb, with heavy imports inside functions. Read in this order.

- `app`: all verbs. `run`, `resume`: running a plan file. `finishing`: their common part. `show_config`: a flag of run.
- `reporting`: messages and exit codes. `options`: shared flags. `stopping`: the end by a signal.
- `stop`, `replan`: for a run that is alive. `checkpoint`, `log`: its files. `schema`, `doctor`: for a plan file, for a machine.
- `plan`, `explain`: plans and stories. `check`, `simulate`, `bench`, `predict`: is a program right, and how fast is it?

Data goes to stdout and messages to stderr. No verb asks the user anything. `dgs.errors` has the exit codes.
"""

from __future__ import annotations

from dgs.cli.stopping import stopped_by_signals, stopped_early


def main() -> None:
    """Run the command line and exit. Signals work from the first moment, also while the verbs are imported."""
    try:
        with stopped_by_signals():
            from dgs.cli.app import app

            app(prog_name="dgs")
    except KeyboardInterrupt as error:
        raise stopped_early(error) from None
