"""`dgs doctor`: whether this machine has what dgs needs."""

from __future__ import annotations

from typing import Annotated

import typer

from dgs.cli.options import AsJson, Debug
from dgs.cli.reporting import print_json, reporting

Ray = Annotated[bool, typer.Option("--ray/--no-ray", help="Also see whether Ray starts (takes seconds).")]


def doctor(ray: Ray = True, as_json: AsJson = False, debug: Debug = False) -> None:
    """Check Python, packages, Ray, Java, shared memory, ports and the working directory."""
    with reporting(as_json=as_json, debug=debug):
        from dataclasses import asdict

        from dgs.doctor import as_text, examine
        from spark_bridge.java import describe_java

        checks = list(examine(find_java=describe_java, start_ray=ray))
        broken = any(check.status == "broken" for check in checks)
        if as_json:
            print_json({"ok": not broken, "checks": [asdict(check) for check in checks]})
        else:
            print(as_text(checks))
        if broken:
            raise typer.Exit(4)
