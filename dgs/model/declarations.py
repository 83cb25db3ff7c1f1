"""The check of a program's declarations before planning: its kinds, its relation, and its required methods.

>>> from dgs.model.program import Program
>>> class Sums(Program):
...     def init(self): return 0
...     def update(self, state, event, emit): return state + event.payload * (event.tag.kind == "value")
>>> try: check_declarations(Sums())
... except ProgramError as error: print(error)
program Sums: its `update` looks at more of an event than payload, ts and stream, but it names no kinds. Write `kinds = (dgs.kind("..."), ...)` with the kinds of its events, or `kinds = dgs.ANY` if it takes any
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from itertools import pairwise
from types import CodeType, FunctionType, MethodType
from typing import Any

from dgs.errors import ProgramError
from dgs.model.dependence import Dependence, Rule, When
from dgs.model.program import KEPT, ForkJoin, Program, StateType, refuse_taken_names
from dgs.model.tags import AnyKind, Kind
from dgs.model.user_code import shown

TAGLESS = ("payload", "ts", "stream", "seq", "rank", "nbytes")
"""The attributes of an event or a batch that a program may read without seeing tags."""

RETURNING = ("init", "update", "update_batch", "fork", "join", "identity")
"""Methods of a program that return states."""

CLOSE = 0.75
"""The least similarity, by difflib, at which a name counts as a misspelling of another."""


def check_declarations(program: Program) -> None:
    """Raise ProgramError with all wrong declarations of a program's class."""
    for one in type(program).__mro__:
        if issubclass(one, Program):
            refuse_taken_names(one)
    found = list(problems(program))
    if found:
        raise ProgramError(program=program.name, problem="\n  ".join(found) if len(found) > 1 else found[0])


def problems(program: Program) -> Iterator[str]:
    """Yield the problems of a program's declarations, as sentences with a remedy."""
    yield from _missing_methods(program)
    yield from _generators(program)
    names = [*_wrong_names(program), *_wrong_parts(program)]
    yield from names
    relation = relation_problem(program)
    if relation is not None:
        yield relation
    if not names and relation is None and (name := _looks_at_tags(program)) is not None:
        yield (
            f"its `{name}` looks at more of an event than payload, ts and stream, but it names no kinds. Write "
            '`kinds = (dgs.kind("..."), ...)` with the kinds of its events, or `kinds = dgs.ANY` if it takes any'
        )


def near_misses(program: Program) -> list[str]:
    """Return a sentence for each name in the user's classes that is almost the name of a missing part of a program.

    For example, nothing calls a method `jion` or `forks`, and the program silently loses its parallelism.
    """
    own, library = _own_names(program), _library_names(program)
    missing = [name for name in library if name not in own]
    found = {name: _meant(name, missing) for name in own if name not in library and not name.startswith("_")}
    return [
        f"{program.name}.{name} is not a part of a program, and nothing calls it: is `{meant}` meant?"
        for name, meant in found.items()
        if meant is not None
    ]


def _meant(name: str, missing: Sequence[str]) -> str | None:
    """Return the missing name that a name probably means: a similar one, or its beginning, as in `init_state`."""
    close = get_close_matches(name, missing, n=1, cutoff=CLOSE)
    longer = [other for other in missing if name.startswith(f"{other}_")]
    return next(iter([*close, *longer]), None)


def _own_names(program: Program) -> list[str]:
    """Return the names that the user's classes define, in their order."""
    classes = [one for one in type(program).__mro__ if not _is_ours(one)]
    return list(dict.fromkeys(name for one in classes for name in vars(one)))


def _library_names(program: Program) -> list[str]:
    """Return the names that a program may define, from the classes of dgs that it inherits from."""
    parts = [part for one in type(program).__mro__ if _is_ours(one) for part in vars(one).items()]
    return [name for name, _ in parts if not (name.startswith("_") or name in KEPT)]


def _is_ours(one: type) -> bool:
    return one.__module__.partition(".")[0] in ("dgs", "builtins")


def _missing_methods(program: Program) -> Iterator[str]:
    """Yield a problem for each missing method that every program needs."""
    has_states = type(program).states is not Program.states
    needed = {"init": "init(self)", "update": "update(self, state, event, emit)"}
    for name in needed if not has_states else ("init",):
        if not program.gives(name):
            meant = next((own for own in _own_names(program) if _meant(own, [name]) == name), None)
            hint = f"; is `{meant}` meant to be it?" if meant is not None else ""
            yield f"class {program.name} has no method `{needed[name]}`, which every program needs{hint}"


def _generators(program: Program) -> Iterator[str]:
    """Yield a problem for each method that returns a generator or a coroutine, which nobody runs."""
    for name in RETURNING:
        if problem := idle_call(name, getattr(program, name, None)):
            instead = ", and give outputs with `emit(...)`" if name.startswith("update") else ""
            yield f"its {problem}{instead if problem.endswith('result') else ''}"


def idle_call(name: str, method: object) -> str:
    """Return what is wrong with a method whose call does nothing yet, since it is `async` or has a `yield`; "" for any other method.

    >>> async def late(): return 1
    >>> idle_call("late", late), idle_call("len", len)
    ('`late` is `async`, so a call does nothing: write `def late`', '')
    """
    if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
        return f"`{name}` is `async`, so a call does nothing: write `def {name}`"
    if inspect.isgeneratorfunction(method):
        return f"`{name}` has a `yield`, so a call does nothing: return the result"
    return ""


def _wrong_names(program: Program) -> Iterator[str]:
    """Yield the problems of `kinds`, `accumulates` and `stamps`."""
    for name in ("kinds", "accumulates", "stamps"):
        yield from wrong_kinds(name, getattr(program, name), Kind if name == "kinds" else str)


def check_kinds(cls: type[Program], *names: str) -> None:
    """Check that these attributes of a class are tuples of kinds. Raises ProgramError."""
    for name in names:
        for problem in wrong_kinds(name, getattr(cls, name)):
            raise ProgramError(program=cls.__name__, problem=problem)


def wrong_kinds(name: str, given: object, allowed: type = str) -> Iterator[str]:
    """Yield the problems of what is to be a tuple of kinds.

    >>> list(wrong_kinds("closes", "end"))
    ['`closes` is one kind, and must be a tuple: write `closes = (end,)`, with a comma']
    """
    if isinstance(given, str):
        yield f"`{name}` is one kind, and must be a tuple: write `{name} = ({given!s},)`, with a comma"
    elif not isinstance(given, (tuple, list)):
        yield f"`{name}` must be a tuple of kinds, not {type(given).__name__}"
    else:
        for one in given:
            if not isinstance(one, allowed):
                yield f'`{name}` holds {one!r}, which is no kind: write `dgs.kind("{one}")`'


def _wrong_parts(program: Program) -> Iterator[str]:
    """Yield the problems with the results of the program's own `states` and `fork_joins`."""
    for name, of in (("states", StateType), ("fork_joins", ForkJoin)):
        if getattr(type(program), name) is getattr(Program, name):
            continue
        given = getattr(program, name)()
        if not isinstance(given, (tuple, list)) or not all(isinstance(one, of) for one in given):
            yield f"its `{name}` must return a tuple of dgs.{of.__name__}, and returns {shown(given)}"
        elif not given and name == "states":
            yield "its `states` returns no dgs.StateType: give at least the one of the initial state"


def relation_problem(program: Program) -> str | None:
    """Return why `depends` cannot be the dependence relation of a program, None if it can."""
    declared = vars(program).get("depends", type(program).depends)
    if isinstance(declared, Dependence):
        return next((problem for rule in declared.rules if (problem := _rule_problem(rule))), None)
    remedy = "give a Dependence of rules, or a function of two tags: `def depends(self, a, b): return ...`"
    called = declared if isinstance(declared, FunctionType) else program.depends
    if not callable(called):
        return f"`depends` is a {type(declared).__name__}: {remedy}"
    is_method = isinstance(called, FunctionType) and called.__code__.co_varnames[:1] == ("self",)
    given = (None, None, None) if is_method or _takes_three(called) else (None, None)
    try:
        inspect.signature(called).bind(*given)
    except TypeError:
        return f"`depends{inspect.signature(called)}` cannot be called with two tags: {remedy}"
    except ValueError:  # a function in C without a signature
        pass
    return None


def _takes_three(called: Callable[..., Any]) -> bool:
    return isinstance(called, FunctionType) and called.__code__.co_argcount > 2  # noqa: PLR2004 - self and two tags


def _rule_problem(rule: Rule) -> str | None:
    """Return why the condition of a rule of `depends` is not valid, None if it is."""
    remedy = "give dgs.ALWAYS, dgs.SAME_KEY, or a function of two tags: `lambda a, b: ...`"
    where = f"the rule of `depends` for {str(rule.left)!r} and {str(rule.right)!r}"
    if isinstance(rule.when, When):
        return None
    if not callable(rule.when):
        return f"{where} has the condition {rule.when!r}: {remedy}"
    try:
        inspect.signature(rule.when).bind(None, None)
    except TypeError:
        return f"{where} has a condition that cannot be called with two tags: {remedy}"
    except ValueError:  # a function in C without a signature
        pass
    return None


def _looks_at_tags(program: Program) -> str | None:
    """Return the name of a method that may use tags although the program names no kinds, None if there is none.

    If no code uses tags, a misspelt kind makes no difference.
    """
    relation = program.depends  # a function does not name kinds, so `kinds` is needed
    has_rules = not isinstance(relation, Dependence) or relation.rules
    if isinstance(program.kinds, AnyKind) or program.kinds or program.accumulates or has_rules:
        return None
    found = (
        name for state in program.states() for name, method in _methods(state) if _may_look(method, name)
    )
    return next(found, None)


def _methods(state: StateType) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in ("update", "update_batch", "update_windows"):
        method = getattr(state, name)
        if method is not None:
            yield name, method


def _may_look(method: Callable[..., Any], name: str) -> bool:
    """Return whether a method uses its event or batch in any way other than reading attributes without tags."""
    function = method.__func__ if isinstance(method, MethodType) else method
    if not isinstance(function, FunctionType):
        return True
    code = function.__code__
    place = isinstance(method, MethodType) + (name != "update_windows")
    if place >= code.co_argcount:
        return True
    return code.co_varnames[place] in code.co_cellvars or _uses_whole(code, code.co_varnames[place])


def _uses_whole(code: CodeType, name: str) -> bool:
    """Return whether code loads a local variable for anything but reading one of the TAGLESS attributes."""
    for one, after in pairwise(dis.get_instructions(code)):
        loaded = one.argval if isinstance(one.argval, tuple) else (one.argval,)
        if not one.opname.startswith("LOAD_FAST") or name not in loaded:
            continue
        is_read = after.opname in ("LOAD_ATTR", "LOAD_METHOD") and after.argval in TAGLESS
        if not is_read or name in loaded[:-1]:
            return True
    return False
