"""Pig Latin as relations of the algebra: `text` reads a script, `pig_translation` gives it a meaning, `pig_loading` reads its files.

>>> from dgs.query.relation import Source
>>> from dgs.query.types import TEXT, Schema
>>> words = Source("words", Schema.of(word=TEXT))
>>> print(script("a = LOAD 'words' AS (word: chararray); b = DISTINCT a; DUMP b;", {"words": words}).outputs[0][1].schema)
word text
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dgs.query.errors import QueryError, Span
from dgs.query.parameters import Parameters
from dgs.query.pig.pig_state import PigOutput, PigProgram
from dgs.query.pig.pig_translation import Translator
from dgs.query.pig.text.pig_reading import read_script
from dgs.query.relation import Script, Source

__all__ = ["PigOutput", "PigProgram", "program_of", "script"]


def program_of(
    text: str,
    sources: Mapping[str, Source] | None = None,
    *,
    name: str = "query.pig",
    params: Mapping[str, Any] | None = None,
    base_dir: Path | None = None,
) -> PigProgram:
    """Return the program of a script, with its mistakes in `problems`. `sources`: None for the files that it loads, in `base_dir`."""
    translator = Translator(base_dir or Path(), Parameters.of(params or {}).made(str), sources)
    return translator.read(read_script(text, name))


def script(
    text: str,
    sources: Mapping[str, Source],
    *,
    name: str = "query.pig",
    params: Mapping[str, Any] | None = None,
) -> Script:
    """Return the script of a text over streams by name: LOAD reads the one that has the name of its file.

    Raises QueryError for the first mistake. Unsupported statements are left out with all that read them, unless no output is left.
    """
    return checked(program_of(text, sources, name=name, params=params), text, name).script


def checked(program: PigProgram, text: str, name: str) -> PigProgram:
    """Return the program of a text, if it has no mistakes. Raises QueryError, see `script`."""
    wrong = [one for one in program.problems if one.code != "Q110"]
    if wrong:
        raise wrong[0]
    if not program.outputs and not program.requests:
        if program.problems:
            raise program.problems[0]
        lines = text.rstrip().split("\n")
        end = Span(name, len(lines), len(lines[-1]) + 1, lines[-1].replace("\t", " "))
        raise QueryError.of("Q101", "the script has no output", "End it with STORE or DUMP.", end)
    return program
