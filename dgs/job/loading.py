"""Loading programs, connectors and functions that plan.yaml names, from a file beside it or from a package.

A file is imported under a name made from its path. So another process that loads the same file gets a module of the same name,
and objects of its classes can be unpickled there. A file that has changed since is imported again.

>>> load_callable("math:sqrt", Path.cwd())(9.0)
3.0
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dgs.errors import DgsError, ProgramImportError
from dgs.errors.nearest import did_you_mean
from dgs.errors.raised import RAISED, is_ours, summary, user_trace
from dgs.job.schema import ProgramConfig
from dgs.model.declarations import idle_call
from dgs.model.program import Program
from dgs.semantics.sequential import without_batches

if TYPE_CHECKING:
    from dgs.flow.definition import Flow
    from dgs.query.rewrite import Rules

SPELLING = 'Write "file.py:Name" or "package.module:Name"'


def load_program(config: ProgramConfig, base_dir: Path) -> Program:
    """Return the program that a plan file names: by a Program class (made with `args`), an instance, a flow, or a function that makes one.

    Raises ProgramImportError, with the user's traceback as `trace`, and FlowError.
    """
    made = load_made(config, base_dir)
    return made if isinstance(made, Program) else made.compiled(classes=config.classes or 64).running()


def load_made(config: ProgramConfig, base_dir: Path) -> Program | Flow:
    """Return the program or the flow that a plan file names; of a pipeline its flow. Raises ProgramImportError, FlowError."""
    found = load_callable(config.ref, base_dir)
    # the usual case needs no import of flows
    is_class = isinstance(found, type) and issubclass(found, Program)
    made = _made(config.ref, found, config.args) if is_class else _named(config, found)
    if isinstance(made, Program):
        return made
    from dgs.flow.definition import Flow

    if isinstance(made, Flow):
        return made
    raise _failure(config.ref, f"it {'is' if made is found else 'makes'} {_kind_of(made)}, not a dgs.Program")


def load_flow(config: ProgramConfig, base_dir: Path) -> Flow:
    """Return the flow that a plan file names, or that of a pipeline, with its arguments. Raises ProgramImportError, FlowError."""
    from dgs.flow.definition import Flow

    found = load_callable(config.ref, base_dir)
    if isinstance(found, type):
        raise _no_flow(config.ref, "is", found)
    if inspect.isfunction(found):
        _check_arguments(config, found)
    made = _named(config, found)
    if not isinstance(made, Flow):
        raise _no_flow(config.ref, "is" if made is found else "makes", made)
    return made


def _named(config: ProgramConfig, found: Any) -> Any:
    """Return the object that a plan file names, or makes with the arguments by a class or a function. A pipeline becomes a flow."""
    from dgs.flow.definition import Flow
    from dgs.pico.operators import UNNAMED
    from dgs.pico.pipelines import Pipeline

    if isinstance(found, Flow):
        return found.bind(**config.args)
    is_made = isinstance(found, (Program, Pipeline))
    if is_made and config.args:
        kind = "a pipeline" if isinstance(found, Pipeline) else "an instance"
        raise _failure(
            config.ref,
            f"it is {kind} already, so `args:` cannot be given. Name a function that makes one of them",
        )
    made = found if is_made or not callable(found) else _made(config.ref, found, config.args)
    if isinstance(made, Pipeline):
        name = config.ref.rpartition(":")[2] if made.name == UNNAMED else made.name
        return made.named(name).flow()
    return made


def _check_arguments(config: ProgramConfig, function: Callable[..., Any]) -> None:
    """Check that `args:` fit the parameters of a function that makes a flow or a pipeline. Raises ProgramImportError."""
    try:
        inspect.signature(function).bind(**config.args)
    except TypeError as error:
        advice = "A flow has `@flow()` above its function; a function that makes a pipeline gets its arguments from `args:`"
        raise _failure(config.ref, f"it is a function that cannot be called: {error}. {advice}") from None


def _no_flow(ref: str, verb: str, found: Any) -> ProgramImportError:
    is_program = isinstance(found, Program) or (isinstance(found, type) and issubclass(found, Program))
    advice = ": write `program:` for it" if is_program else " or a pipeline"
    return _failure(ref, f"it {verb} {_kind_of(found)}, not a flow{advice}")


def _kind_of(found: Any) -> str:
    if isinstance(found, type):
        return f"the class {found.__name__}"
    name = type(found).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def load_connector(ref: str, args: Mapping[str, Any], base_dir: Path, *, role: str, protocol: type) -> Any:
    """Return the source, sink or store that a plan file names, made with `args` by its class or by a function.

    `role`: its role, for errors. `protocol`: it must have the abstract methods of this class. Raises ProgramImportError.
    """
    found = load_callable(ref, base_dir)
    if not callable(found):
        raise _failure(ref, f"it is a {type(found).__name__}, not a class of a {role}")
    if isinstance(found, type):
        _check_methods(ref, found, role=role, protocol=protocol)
    made = _made(ref, found, args)
    _check_methods(ref, type(made), role=role, protocol=protocol)
    return made


def _check_methods(ref: str, cls: type, *, role: str, protocol: type) -> None:
    needs = sorted(name for name, method in vars(protocol).items() if is_abstract(method))
    found = {name: getattr(cls, name, None) for name in needs}
    missing = [n for n, method in found.items() if not callable(method) or is_abstract(method)]
    if missing:
        named = " and ".join(f"`{name}`" for name in missing)
        raise _failure(ref, f"class {cls.__qualname__} has no method {named}, which a {role} needs")
    for name in (one for one in vars(protocol) if not one.startswith("_")):
        method = getattr(cls, name, None)
        if (problem := idle_call(name, method)) and not (
            name == "read" and inspect.isgeneratorfunction(method)
        ):
            raise _failure(ref, f"in class {cls.__qualname__}, {problem}")


def is_abstract(method: object) -> bool:
    """Return whether a method is only declared, in a protocol or an abstract class."""
    return bool(getattr(method, "__isabstractmethod__", False))


def _made(ref: str, found: Callable[..., Any], args: Mapping[str, Any]) -> Any:
    """Call a class or function with `args`; return the result."""
    try:
        return found(**args)
    except DgsError:
        raise
    except RAISED as error:
        if is_ours(error):
            raise
        arguments = ", ".join(f"{name}={value!r}" for name, value in args.items())
        raise _failure(ref, f"making it with ({arguments}) raised {summary(error)}", error) from error


def load_scalar(ref: str, base_dir: str, args: dict[str, Any]) -> Program:
    """Return the program that a plan file names, without its vectorised methods. Other processes can make it in the same way."""
    return without_batches(load_program(ProgramConfig(ref=ref, args=args), Path(base_dir)))


def load_callable(ref: str, base_dir: Path) -> Any:
    """Return the object of `file.py:Name` (relative to `base_dir`) or `package.module:Name`.

    Raises ProgramImportError if there is no such file, module or name, or the module raises.
    """
    source, colon, name = ref.rpartition(":")
    if not colon or not source or not name or "\0" in ref:
        raise _failure(ref, f"it names no object inside of the module. {SPELLING}")
    module = _from_file(ref, base_dir / source) if source.endswith(".py") else _by_name(ref, source, base_dir)
    found: Any = module
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            public = [word for word in vars(module) if not word.startswith("_")]
            raise _failure(ref, f"{source} has no {name!r}{did_you_mean(name, public)}") from None
        except RAISED as error:  # raised by a `__getattr__` of the user
            if is_ours(error):
                raise
            raise _failure(ref, f"looking for {name!r} raised {summary(error)}", error) from error
    return found


def load_function(ref: str, base_dir: Path, *, may_yield: bool = False) -> Callable[..., Any]:
    """Return the function that `ref` names, as `load_callable` does.

    Raises ProgramImportError, also for other objects, and for functions whose call does nothing yet (`may_yield`: generators are allowed).
    """
    found = load_callable(ref, base_dir)
    if not callable(found):
        raise _failure(ref, f"it is not a function but {type(found).__name__}")
    if not may_yield and (problem := idle_call(ref.rpartition(":")[2], found)):
        raise _failure(ref, problem)
    return found  # type: ignore[no-any-return]


def load_rules(refs: Iterable[str], base_dir: Path) -> list[Rules]:
    """Return the rules of queries that `refs` name, as `load_callable` does.

    Raises ProgramImportError, and QueryError Q601 for other objects.
    """
    from dgs.query.errors import QueryError
    from dgs.query.rewrite import PHASES, Rules

    found = [(ref, load_callable(ref, base_dir)) for ref in refs]
    for ref, one in found:
        if not isinstance(one, Rules):
            remedy = 'Write `name = Rules("name")`, and the rules below it.'
            raise QueryError.of("Q601", f"{ref} is {_kind_of(one)}, not Rules", remedy, ref=ref)
        if one.phase not in PHASES:
            raise QueryError.of(
                "Q601", f"{ref} has the phase {one.phase!r}", f"There are {', '.join(PHASES)}.", ref=ref
            )
    return [one for _, one in found]


def module_name(path: Path) -> str:
    """Return the name under which a file is imported: unique per path, and the same in every process."""
    digest = hashlib.blake2b(str(path.resolve()).encode(), digest_size=6).hexdigest()
    return f"dgs_file_{digest}_{path.stem}"


def _from_file(ref: str, path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise _failure(ref, f"there is no file {path}. {SPELLING}")
    name, stamp = module_name(path), (path.stat().st_mtime_ns, path.stat().st_size)
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__dgs_stamp__", None) == stamp:
        return known
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise _failure(ref, f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    _make_importable(path.parent)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except RAISED as error:
        del sys.modules[name]
        if is_ours(error):
            raise
        raise _failure(ref, f"importing {path.name} raised {summary(error)}", error) from error
    vars(module)["__dgs_stamp__"] = stamp
    return module


def _by_name(ref: str, source: str, base_dir: Path) -> ModuleType:
    _make_importable(base_dir.resolve())
    _make_importable(Path.cwd())
    try:
        return importlib.import_module(source)
    except ModuleNotFoundError as error:
        if error.name and (source == error.name or source.startswith(error.name + ".")):
            where = base_dir.resolve()
            raise _failure(ref, f"there is no module {error.name!r} in {where} or installed") from None
        raise _failure(ref, f"importing {source} raised {summary(error)}", error) from error
    except RAISED as error:
        if is_ours(error):
            raise
        raise _failure(ref, f"importing {source} raised {summary(error)}", error) from error


def _make_importable(directory: Path) -> None:
    """Let the user's modules import their neighbours. The directory comes last on the path, so it hides no installed module."""
    if str(directory) not in sys.path:
        sys.path.append(str(directory))


def _failure(ref: str, problem: str, cause: BaseException | None = None) -> ProgramImportError:
    trace = user_trace(cause) if cause is not None else ""
    return ProgramImportError(ref=ref, problem=problem, trace=trace)
