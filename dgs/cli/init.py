"""`dgs init`: makes a folder with a program, its plan file, its input and its test."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from dgs.cli.reporting import Ending, print_json, verb
from dgs.errors import OutputUnwritableError, ResourceError, UsageError
from dgs.errors.nearest import did_you_mean
from dgs.job import private_files

TEMPLATES = {
    "window": "sums between barriers, which end a window in all streams at once",
    "join": "orders joined with prices that change",
    "fraud": "a model that all read and a rule changes",
    "spark": "a stream that Spark reads",
    "socket": "live totals from a port",
}
"""The templates, with what they are. Their files are in `dgs/templates`."""

CODE = ".tmpl"
"""The ending of files with code, so that no tool takes them for modules of dgs."""


class UnknownTemplateError(UsageError):
    """There is no template of a name."""

    code = "DGS575"
    template = "there is no template {name!r}{hint}"
    fix = "The templates are {names}"


class FilesThereError(ResourceError):
    """`dgs init` would write files that are there."""

    code = "DGS576"
    template = "{directory} has {names}, and nothing is overwritten"
    fix = "Give another directory: dgs init {template_name} DIR"


@verb
def init(
    ending: Ending,
    template: Annotated[
        str,
        typer.Argument(
            metavar="[TEMPLATE]", help=f"{', '.join(TEMPLATES)} (default: window).", show_default=False
        ),
    ] = "window",
    directory: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="Where to (default: a folder named as the template)."),
    ] = None,
) -> None:
    """Make a folder that runs: a program, its plan file with comments, its input and its test. Nothing is overwritten."""
    if template not in TEMPLATES:
        hint = did_you_mean(template, TEMPLATES).rstrip("?")
        raise UnknownTemplateError(name=template, hint=hint, names=", ".join(TEMPLATES))
    place = directory or Path(template)
    written = written_to(place, template)
    if ending.as_json:
        print_json({"template": template, "directory": str(place), "files": written})
        return
    typer.echo(f"{place}: {TEMPLATES[template]}")
    for name in written:
        typer.echo(f"  {name}")
    typer.echo(f"Next:\n  cd {place}\n  dgs run\n  pytest")


def written_to(place: Path, template: str) -> list[str]:
    """Write the files of a template, or none; return their names.

    Raises FilesThereError if one of the files exists, OutputUnwritableError if one cannot be written.
    """
    found = dict(sorted(_files(files("dgs") / "templates" / template)))
    if there := [name for name in found if (place / name).exists()]:
        raise FilesThereError(directory=place, names=", ".join(there), template_name=template)
    made: list[Path] = []
    for name, file in found.items():
        target = place / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            private_files.write_whole(target, file.read_bytes())
        except OSError as error:
            for one in made:
                one.unlink(missing_ok=True)
            raise OutputUnwritableError(path=target, problem=error.strerror or str(error)) from None
        made.append(target)
    return list(found)


def _files(folder: Traversable, above: str = "") -> list[tuple[str, Traversable]]:
    """Return the files below a folder, with their names in the new folder."""
    found = []
    for one in folder.iterdir():
        name = f"{above}{one.name}"
        found += _files(one, f"{name}/") if one.is_dir() else [(name.removesuffix(CODE), one)]
    return found
