r"""The code of a program as digests, function by function: a run keeps them, and a resumed run names the changes.

Comments, blank lines, layout and docstrings do not count. For a program in a module, all the user's modules that it imports count
as a whole, and installed modules do not. For a program in a script or a notebook (`__main__`), only the program's class and the
names that its methods mention count.

>>> before = pieces("def rate(x):\n    'Double it.'\n    return 2 * x\nLIMIT = 3")
>>> after = pieces("def rate(x):\n    return 3*x  # thrice\nLIMIT = 3\ndef other(): pass")
>>> changes({"lib.py": before}, {"lib.py": after})
['lib.py: rate has changed, other is new']
"""

from __future__ import annotations

import ast
import hashlib
import importlib.machinery
import inspect
import os
import sys
import sysconfig
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from dgs import codec
from dgs.errors import CodecError
from dgs.model.program import Program
from dgs.model.user_code import code_objects

Code = dict[str, dict[str, str]]
"""Digests by file (relative to the plan file), and by the name of a function, a method, a class or a global."""

MAIN = "__main__"
TOP_LEVEL = "the top level"

_INSTALLED = tuple(os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib"))
_PACKAGES = {"site-packages", "dist-packages"}
_Def = ast.FunctionDef | ast.AsyncFunctionDef


def code_of(program: Program, base_dir: Path, ref: str | None = None) -> Code:
    """Return the digests of all the user's code in a program. `ref`: the reference in the plan file, such as a function.

    Code that cannot be read is left out.
    """
    classes = type(program).__mro__[: type(program).__mro__.index(Program)]
    modules = {one.__module__ for one in classes}
    found: Code = {}
    if MAIN in modules:
        walk = _Walk()
        walk.add([one for one in classes if one.__module__ == MAIN])
        modules |= walk.modules
        found[MAIN] = walk.found
    source = (ref or "").rpartition(":")[0]
    is_file = source.endswith(".py")  # not a module `program` that happens to be on the path
    files = [(base_dir / source).resolve()] if is_file else []
    names = {*modules, "" if is_file else source} - {MAIN, ""}
    files += [path for name in names for path in _files_of(name)]
    for path, text in _with_imports(files):
        with suppress(SyntaxError, ValueError):
            found[os.path.relpath(path, base_dir.resolve())] = pieces(text)
    return {name: found[name] for name in sorted(found)}


def pieces(text: str) -> dict[str, str]:
    """Return the digests of a module's functions, methods, classes without methods, globals, and the rest. Raises SyntaxError."""
    texts: dict[str, list[str]] = {}
    for name, node in _named(ast.parse(text).body):
        texts.setdefault(name, []).append(_plain(node))
    return {name: _digest("\n".join(parts)) for name, parts in texts.items()}


def changes(before: Mapping[str, Mapping[str, str]], now: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return a line for each file with other code: its changed, new and removed names."""
    lines = []
    for file in [*before, *(name for name in now if name not in before)]:
        there, here = before.get(file, {}), now.get(file, {})
        phrases = [
            ("has changed", [name for name in there if name in here and there[name] != here[name]]),
            ("is new", [name for name in here if name not in there]),
            ("is gone", [name for name in there if name not in here]),
        ]
        told = [f"{name} {what}" for what, names in phrases for name in names]
        if told:
            lines.append(f"{file}: {', '.join(told)}")
    return lines


def _named(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the statements of a module with the names that they define. A class yields its methods, and its rest."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            methods = [one for one in node.body if isinstance(one, _Def)]
            yield from ((f"{node.name}.{one.name}", one) for one in methods)
            node.body = [one for one in node.body if one not in methods]
            yield node.name, node
        elif isinstance(node, _Def):
            yield node.name, node
        elif isinstance(node, ast.Assign) and all(isinstance(target, ast.Name) for target in node.targets):
            yield ", ".join(target.id for target in node.targets if isinstance(target, ast.Name)), node
        elif not _is_for_scripts(node):
            yield TOP_LEVEL, node


def _is_for_scripts(node: ast.stmt) -> bool:
    """Return whether a statement is `if __name__ == "__main__"`, which an import does not execute."""
    return isinstance(node, ast.If) and ast.unparse(node.test).startswith("__name__ == ")


def _plain(node: ast.AST) -> str:
    """Return the text of a syntax tree without strings that are statements, such as docstrings."""
    for one in ast.walk(node):
        for field in ("body", "orelse", "finalbody"):
            body = getattr(one, field, None)
            if isinstance(body, list):
                kept = [part for part in body if not _is_text(part)]
                setattr(one, field, kept if kept or field != "body" else [ast.Pass()])
    return "" if _is_text(node) else ast.unparse(node)


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _with_imports(files: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    """Yield the user's files and those of the modules that they import, with their texts."""
    todo, seen = list(files), set[Path]()
    while todo:
        path = todo.pop()
        if path in seen or not _is_users(path):
            continue
        seen.add(path)
        with suppress(OSError, SyntaxError, ValueError):
            text = path.read_text(encoding="utf-8")
            names = dict.fromkeys(_imported(ast.parse(text), path))
            todo += [file for name in names for file in _files_of(name)]
            yield path, text


def _imported(tree: ast.Module, path: Path) -> Iterator[str]:
    """Yield the full names of modules that a file may import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [*_package(path, node.level), *filter(None, [node.module])]
            yield from (".".join([*base, alias.name]) for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            yield from (
                one.value
                for one in node.args[:1]
                if isinstance(one, ast.Constant) and isinstance(one.value, str)
            )


def _package(path: Path, level: int) -> list[str]:
    """Return the parts of the name of the package where `from ...` with `level` dots starts."""
    parts: list[str] = []
    if level:
        directory = path.parents[level - 1]
        while (directory / "__init__.py").is_file():
            parts.insert(0, directory.name)
            directory = directory.parent
    return parts


def _files_of(name: str) -> Iterator[Path]:
    """Yield the user's files of a module and of the packages above it, without importing them."""
    parts = name.split(".")
    where: Any = None
    for n in range(1, len(parts) + 1):
        full = ".".join(parts[:n])
        module = sys.modules.get(full)
        if module is None:
            spec = importlib.machinery.PathFinder.find_spec(full, where)
            if spec is None:
                return
            origin, where = spec.origin, spec.submodule_search_locations
        else:
            origin, where = getattr(module, "__file__", None), getattr(module, "__path__", None)
        if origin is not None and origin.endswith(".py"):
            path = Path(origin).resolve()
            if not _is_users(path):
                return
            yield path
        if where is None:
            return


def _is_users(path: Path) -> bool:
    """Return whether a file is the user's: not installed, and not a part of Python or of dgs."""
    text = str(path)
    ours = {
        (Path(__file__).parents[1] / name).resolve() for name in ("", "planner", "workers", "spark_bridge")
    }
    return not (text.startswith(_INSTALLED) or _PACKAGES & set(path.parts) or ours & set(path.parents))


class _Walk:
    """The names in `__main__` that methods of classes mention. `found`: their digests. `modules`: other mentioned modules."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self.modules: set[str] = set()

    def add(self, todo: list[Any]) -> None:
        """Add classes and functions, and the names that they mention."""
        while todo:
            one = todo.pop(0)
            name = one.__qualname__
            if isinstance(one, type) and name not in self.found:
                todo += self._class(one, name)
            elif isinstance(one, FunctionType) and name not in self.found:
                self.found[name] = _digest(_text_of(one))
                todo += self._mentioned(one)

    def _class(self, one: type, name: str) -> list[Any]:
        rest, methods = [], []
        for attribute, value in vars(one).items():
            inner = getattr(value, "__func__", getattr(value, "fget", value))
            if isinstance(inner, (FunctionType, type)):
                methods.append(inner)
            elif not attribute.startswith("__"):
                rest.append(f"{attribute} = {_value(value)}")
        self.found[name] = _digest("\n".join([*(base.__qualname__ for base in one.__bases__), *rest]))
        return [*methods, *(base for base in one.__bases__ if base.__module__ == MAIN)]

    def _mentioned(self, function: FunctionType) -> list[Any]:
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        values = {name: _inside(cell) for name, cell in cells}
        names = {name for code in code_objects(function.__code__) for name in code.co_names}
        values |= {name: value for name, value in function.__globals__.items() if name in names}
        found = []
        for name in sorted(values):
            value = values[name]
            if isinstance(value, ModuleType):
                self.modules.add(value.__name__)
            elif isinstance(value, (FunctionType, type)):
                if value.__module__ == MAIN:
                    found.append(value)
                else:
                    self.modules.add(value.__module__)
            else:
                self.found[name] = _digest(_value(value))
        return found


def _inside(cell: Any) -> Any:
    with suppress(ValueError):  # an empty cell
        return cell.cell_contents
    return None


def _text_of(function: FunctionType) -> str:
    """Return the source of a function without comments and docstrings, or its compiled form if it has none, as a lambda."""
    with suppress(OSError, TypeError, SyntaxError, IndexError):
        [node] = ast.parse(textwrap.dedent(inspect.getsource(function))).body
        if isinstance(node, _Def):
            return _plain(node)
    codes = code_objects(function.__code__)
    return repr([(sys.version_info[:2], one.co_code, one.co_names, _constants(one)) for one in codes])


def _constants(code: CodeType) -> list[str]:
    return [repr(one) for one in code.co_consts if not isinstance(one, CodeType)]


def _value(value: Any) -> str:
    """Return the content of a global as text, or its class if the codec cannot encode it."""
    try:
        return codec.encode(value).hex()
    except (CodecError, RecursionError):
        return type(value).__qualname__


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
