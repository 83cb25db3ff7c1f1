"""Machine code: the only module that imports llvmlite. It turns LLVM text into machine code, and machine code into functions.

Import it only when something is compiled. The machine code is for this processor.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite
from llvmlite import binding as llvm

from dgs.compiled.lowering.value_types import Refused

LEVEL = 3
"""The optimization level."""
NO_GATHER = ",+prefer-no-gather"
"""Entries of a dict are read one by one: gather instructions for the bytes that say which exist take 1.4 times as long."""


@cache
def processor() -> str:
    """Return the version of LLVM, and the name of the processor and its features: machine code is valid only if all are the same."""
    return f"{llvmlite.__version__} {llvm.get_process_triple()} {llvm.get_host_cpu_name()} {_features()}"


def _features() -> str:
    try:
        return str(llvm.get_host_cpu_features().flatten())
    except RuntimeError:  # LLVM does not know this processor
        return ""


def _target() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    is_x86 = target.name.startswith("x86")
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=_features() + (NO_GATHER if is_x86 else ""),
        opt=LEVEL,
        reloc="static" if is_x86 else "default",
        codemodel="jitdefault",
        jit=True,
    )


def compiled(text: str) -> bytes:
    """Return the machine code of LLVM's text. Raises Refused if LLVM refuses it."""
    target = _target()
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise Refused(f"LLVM does not compile it: {str(error).strip().splitlines()[0]}") from error
    module.triple, module.data_layout = llvm.get_process_triple(), str(target.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=LEVEL)
    options.loop_vectorization = options.loop_interleaving = options.loop_unrolling = True
    builder = llvm.create_pass_builder(target, options)
    builder.getModulePassManager().run(module, builder)
    code: bytes = target.emit_object(module)
    return code


@cache
def engine() -> Any:
    """Return what makes machine code callable. Raises Refused if the system does not allow generated code to run."""
    try:
        llvm.check_jit_execution()
    except OSError as error:
        raise Refused(f"this machine runs no code that is made while it runs: {error}") from error
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target())


_OBJECTS: list[Any] = []
"""The machine code of functions, kept for as long as the process lives."""


def function(code: bytes, name: str) -> Callable[[Any], None]:
    """Return the function of a name in machine code, which takes an address. It holds Python's global lock.

    Raises Refused if the system does not allow generated code to run.
    """
    made = engine()
    held = llvm.ObjectFileRef.from_data(code)
    made.add_object_file(held)
    _OBJECTS.append(held)
    made.finalize_object()
    return ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(made.get_function_address(name))
