"""Python in a script, between `<%` and `%>`: its functions are read from the text, and run when the script runs.

The annotations of a function are its types: int, float, str and bool. A parameter without an annotation takes any type, a result
without one is a text. A null argument makes the result null.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from dgs.errors.raised import RAISED, is_ours, summary
from dgs.query.errors import QueryError
from dgs.query.functions import FUNCTIONS, Function
from dgs.query.pig.pig_casts import as_number, as_type
from dgs.query.pig.pig_scope import Value
from dgs.query.pig.pig_types import BOOLEAN, CHARARRAY, DOUBLE, LONG, PigType
from dgs.query.scalar import call
from dgs.query.types import conform

TYPES = {
    "int": LONG,
    "float": DOUBLE,
    "str": CHARARRAY,
    "bool": BOOLEAN,
    "Int": LONG,
    "Double": DOUBLE,
    "String": CHARARRAY,
}


def functions_of(code: str) -> dict[str, Callable[[Sequence[Value]], Value]]:
    """Return the functions of embedded code by name: each takes values and gives one. Nothing runs yet."""
    section = PythonSection(code)
    return {
        one.name: section.called(one)
        for one in ast.parse(code).body
        if isinstance(one, ast.FunctionDef) and not one.name.startswith("_")
    }


class PythonSection:
    """Embedded code. It runs once in each process, when one of its functions is first called."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.digest = hashlib.sha256(code.encode()).hexdigest()[:12]
        self._names: dict[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_names": None}  # another process runs the code itself

    def called(self, definition: ast.FunctionDef) -> Callable[[Sequence[Value]], Value]:
        """Return the function that makes a call of one of the code's functions."""
        result = _type(definition.returns) or CHARARRAY
        wanted = [_type(one.annotation) for one in definition.args.args]
        least = len(wanted) - len(definition.args.defaults)

        def run(*values: Any) -> Any:
            return conform(self._call(definition.name, values), result.stored)

        def make(given: Sequence[Value]) -> Value:
            if not least <= len(given) <= len(wanted):
                raise QueryError.of(
                    "Q206", f"{definition.name} takes {len(wanted)} arguments, not {len(given)}"
                )
            parts = [_fitted(one, of) for one, of in zip(given, wanted, strict=False)]
            types = tuple(one.type.stored for one in parts)
            name = "_".join(["python", self.digest, definition.name, *(one.kind for one in types)]).lower()
            FUNCTIONS[name] = Function(
                name,
                run,
                lambda _: result.stored,
                f"CAST({name}({{all}}) AS DOUBLE)" if result == DOUBLE else name + "({all})",
                name + "({all})",
                len(types),
                len(types),
                called_back=types,
            )
            return Value(call(name, *(one.scalar for one in parts)), result)

        return make

    def _call(self, name: str, values: tuple[Any, ...]) -> Any:
        try:
            if self._names is None:
                names: dict[str, Any] = {}
                exec(compile(self.code, "<%", "exec"), names)  # noqa: S102 - the user's own program
                self._names = names
            return self._names[name](*values)
        except RAISED as error:
            if is_ours(error):
                raise
            problem = f"{name}{values!r} raised {summary(error)}"
            raise QueryError.of("Q704", problem, function=name) from error


def _type(annotation: ast.expr | None) -> PigType | None:
    return TYPES.get(annotation.id) if isinstance(annotation, ast.Name) else None


def _fitted(value: Value, wanted: PigType | None) -> Value:
    if wanted is None or wanted == value.type:
        return value
    if wanted.is_number:
        return as_type(as_number(value), wanted)
    return as_type(value, wanted)
