"""A function of the text of a loop as a function of LLVM. Each name has a place on the stack, which LLVM turns into a register."""

from __future__ import annotations

import ast
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from dgs.compiled.llvm.llvm_operations import BOOL, FLOAT, INT, SIGNATURES, VALUES
from dgs.compiled.lowering.value_types import Refused

STORED = {"i8": INT, "i4": "i32", "f8": FLOAT, "?": "i8"}
"""The types of the elements of columns in memory."""
OF_INTS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.RShift: "ashr", ast.LShift: "shl"}  # fmt: skip
OF_FLOATS = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul"}
OF_BOOLS = (ast.BitAnd, ast.BitOr, ast.BitXor)
COMPARED = {ast.Eq: ("eq", "oeq"), ast.NotEq: ("ne", "une"), ast.Lt: ("slt", "olt"), ast.LtE: ("sle", "ole"), ast.Gt: ("sgt", "ogt"), ast.GtE: ("sge", "oge")}  # fmt: skip
"""Comparisons of ints, and of floats: NaN is unequal to everything, and no other comparison with it is true."""


class Term(NamedTuple):
    """A value in LLVM's text: its type, and its name or number. The type of a column is `*` and the type of its elements."""

    of: str
    text: str


class Callees(Protocol):
    """The functions of the same text."""

    def made(self, name: str, types: tuple[str, ...]) -> tuple[str, ...]:
        """Return the types that a function returns. Raises Refused if it cannot be called with arguments of these types."""
        ...

    def has(self, name: str) -> bool:
        """Whether the text defines a function."""
        ...


def returned_type(parts: Sequence[str]) -> str:
    """Return the type of a function's result, given the types of its parts."""
    return parts[0] if len(parts) == 1 else f"{{{', '.join(parts)}}}"


class LlvmFunction:
    """The translation of a function, for arguments of some types. `parts`: the types of what it returns. `text`: its text. Raises Refused."""

    def __init__(self, functions: Callees, node: ast.FunctionDef, types: Sequence[str]) -> None:
        self._functions, self._node = functions, node
        self._columns: dict[str, Term] = {}
        self._places: dict[str, Term] = {}
        # where `continue` and `break` of each enclosing loop jump to
        self._around: list[tuple[str, str]] = []
        self._first: list[str] = []
        self._lines: list[str] = []
        self._count = 0
        self.parts = tuple[str, ...]()
        given = []
        for argument, of in zip(node.args.args, types, strict=True):
            name = f"%in.{argument.arg}"
            given.append(f"ptr noalias {name}" if of.startswith("*") else f"{of} {name}")
            if of.startswith("*"):
                self._columns[argument.arg] = Term(of, name)
            else:
                self._store(argument.arg, Term(of, name))
        self._block(node.body)
        inlined = "noinline" if node.name == "loop" else "alwaysinline"
        head = f"define internal {returned_type(self.parts)} @{node.name}({', '.join(given)}) {inlined} nounwind {{"
        self.text = "\n".join([head, "entry:", *self._first, *self._lines, "  unreachable", "}"])

    # -- lines ---------------------------------------------------------------------------------------------------------

    def _put(self, line: str) -> None:
        self._lines.append("  " + line)

    def _value(self, of: str, text: str) -> Term:
        """Write an instruction; return its value."""
        self._count += 1
        self._put(f"%t{self._count} = {text}")
        return Term(of, f"%t{self._count}")

    def _labels(self, *names: str) -> list[str]:
        self._count += 1
        return [f"{name}{self._count}" for name in names]

    def _begin(self, label: str) -> None:
        """Begin a block."""
        self._lines.append(f"{label}:")

    def _go(self, label: str) -> None:
        """End a block with a jump. What follows is unreachable, or begins another block."""
        self._put(f"br label %{label}")
        self._begin(self._labels("after")[0])

    def _branch(self, test: ast.expr, yes: str, no: str) -> None:
        """End a block with a conditional jump."""
        self._put(f"br i1 {self._truth(test).text}, label %{yes}, label %{no}")

    def _store(self, name: str, value: Term) -> None:
        """Give a name a value."""
        if name not in self._places:
            self._places[name] = Term(value.of, f"%at.{name}")
            self._first.append(f"  %at.{name} = alloca {value.of}")
        place = self._places[name]
        self._put(f"store {place.of} {self._as(value, place.of).text}, ptr {place.text}")

    def _as(self, value: Term, of: str) -> Term:
        """Return a number as one of another type."""
        if value.of == of:
            return value
        if (value.of, of) == (BOOL, INT):
            return self._value(of, f"zext i1 {value.text} to i64")
        if (value.of, of) == (INT, FLOAT):
            return self._value(of, f"sitofp i64 {value.text} to double")
        if (value.of, of) == (INT, BOOL):
            return self._value(of, f"icmp ne i64 {value.text}, 0")
        if (value.of, of) == (BOOL, FLOAT):
            return self._as(self._as(value, INT), FLOAT)
        raise Refused(f"the loop has {value.of} where {of} is expected")

    # -- statements ----------------------------------------------------------------------------------------------------

    def _block(self, body: Sequence[ast.stmt]) -> None:
        for node in body:
            if not isinstance(node, (ast.Pass, ast.Expr)):
                self._lowered(node)

    def _lowered(self, node: ast.AST) -> Any:
        """Translate a node by the method of its name."""
        return getattr(self, f"_{type(node).__name__.lower()}", self._unknown)(node)

    def _unknown(self, node: ast.AST) -> Any:
        raise Refused(f"`{ast.unparse(node)}` has no machine code")

    def _assign(self, node: ast.Assign) -> None:
        (target,) = node.targets
        if isinstance(target, ast.Tuple):
            values = self._several(node.value)
            for one, value in zip(target.elts, values, strict=True):
                self._put_to(one, value)
        else:
            self._put_to(target, self._lowered(node.value))

    def _several(self, node: ast.expr) -> list[Term]:
        """Return the parts of a tuple, or of what a call returns."""
        if isinstance(node, ast.Tuple):
            return [self._lowered(one) for one in node.elts]
        parts, whole = self._called(node)
        return [
            self._value(part, f"extractvalue {whole.of} {whole.text}, {number}")
            for number, part in enumerate(parts)
        ]

    def _augassign(self, node: ast.AugAssign) -> None:
        before = self._lowered(node.target)
        self._put_to(node.target, self._binary(node.op, before, self._lowered(node.value), node))

    def _put_to(self, target: ast.expr, value: Term) -> None:
        if isinstance(target, ast.Name):
            self._store(target.id, value)
            return
        of, place = self._element(target)
        if of == "?":
            byte = self._value("i8", f"zext i1 {self._as(value, BOOL).text} to i8")
            self._put(f"store i8 {byte.text}, ptr {place}")
        else:
            self._put(f"store {STORED[of]} {self._as(value, VALUES[of]).text}, ptr {place}")

    def _if(self, node: ast.If) -> None:
        yes, no, end = self._labels("yes", "no", "end")
        self._branch(node.test, yes, no)
        for label, body in ((yes, node.body), (no, node.orelse)):
            self._begin(label)
            self._block(body)
            self._put(f"br label %{end}")
        self._begin(end)

    def _while(self, node: ast.While) -> None:
        test, body, end = self._labels("test", "body", "end")
        self._put(f"br label %{test}")
        self._begin(test)
        self._branch(node.test, body, end)
        self._inside(body, node.body, test, end)
        self._put(f"br label %{test}")
        self._begin(end)

    def _for(self, node: ast.For) -> None:
        """Translate `for i in range(start, stop)`."""
        if not isinstance(node.iter, ast.Call) or not isinstance(node.target, ast.Name):
            self._unknown(node)
        start, stop = (self._lowered(one) for one in node.iter.args)  # type: ignore[attr-defined]
        name = node.target.id  # type: ignore[attr-defined]
        test, body, step, end = self._labels("test", "body", "step", "end")
        self._store(name, start)
        self._put(f"br label %{test}")
        self._begin(test)
        now = self._read(name)
        is_below = self._value(BOOL, f"icmp slt i64 {now.text}, {stop.text}")
        self._put(f"br i1 {is_below.text}, label %{body}, label %{end}")
        self._inside(body, node.body, step, end)
        self._put(f"br label %{step}")
        self._begin(step)
        self._store(name, self._value(INT, f"add nsw i64 {self._read(name).text}, 1"))
        self._put(f"br label %{test}")
        self._begin(end)

    def _inside(self, label: str, body: Sequence[ast.stmt], go_on: str, end: str) -> None:
        """Translate the body of a loop."""
        self._begin(label)
        self._around.append((go_on, end))
        self._block(body)
        self._around.pop()

    def _continue(self, _node: ast.Continue) -> None:
        self._go(self._around[-1][0])

    def _break(self, _node: ast.Break) -> None:
        self._go(self._around[-1][1])

    def _return(self, node: ast.Return) -> None:
        nodes = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value or node]
        values = [self._lowered(one) for one in nodes]
        self.parts = tuple(value.of for value in values)
        returned, whole = returned_type(self.parts), values[0].text
        if len(values) > 1:
            whole = "undef"
            for number, value in enumerate(values):
                into = f"insertvalue {returned} {whole}, {value.of} {value.text}, {number}"
                whole = self._value(returned, into).text
        self._put(f"ret {returned} {whole}")
        self._begin(self._labels("after")[0])

    # -- expressions ---------------------------------------------------------------------------------------------------

    def _read(self, name: str) -> Term:
        place = self._places[name]
        return self._value(place.of, f"load {place.of}, ptr {place.text}")

    def _name(self, node: ast.Name) -> Term:
        if node.id == "INFINITY":
            return _float(float("inf"))
        return self._columns.get(node.id) or self._read(node.id)

    def _constant(self, node: ast.Constant) -> Term:
        if isinstance(node.value, bool):
            return Term(BOOL, str(node.value).lower())
        return _float(node.value) if isinstance(node.value, float) else Term(INT, str(node.value))

    def _element(self, node: ast.expr) -> tuple[str, str]:
        """Return the type of an element of a column, and its address."""
        if not isinstance(node, ast.Subscript):
            self._unknown(node)
        column, row = self._lowered(node.value), self._as(self._lowered(node.slice), INT)  # type: ignore[attr-defined]
        of = column.of[1:]
        place = f"getelementptr inbounds {STORED[of]}, ptr {column.text}, i64 {row.text}"
        return of, self._value("ptr", place).text

    def _subscript(self, node: ast.Subscript) -> Term:
        of, place = self._element(node)
        value = self._value(STORED[of], f"load {STORED[of]}, ptr {place}")
        if of == "i4":
            return self._value(INT, f"sext i32 {value.text} to i64")
        return self._value(BOOL, f"icmp ne i8 {value.text}, 0") if of == "?" else value

    def _binop(self, node: ast.BinOp) -> Term:
        return self._binary(node.op, self._lowered(node.left), self._lowered(node.right), node)

    def _binary(self, op: ast.operator, one: Term, other: Term, node: ast.AST) -> Term:
        if FLOAT in (one.of, other.of) and type(op) in OF_FLOATS:
            a, b = self._as(one, FLOAT), self._as(other, FLOAT)
            return self._value(FLOAT, f"{OF_FLOATS[type(op)]} double {a.text}, {b.text}")
        if one.of == other.of == BOOL and isinstance(op, OF_BOOLS):
            return self._value(BOOL, f"{OF_INTS[type(op)]} i1 {one.text}, {other.text}")
        if type(op) not in OF_INTS:
            self._unknown(node)
        a, b = self._as(one, INT), self._as(other, INT)
        return self._value(INT, f"{OF_INTS[type(op)]} i64 {a.text}, {b.text}")

    def _unaryop(self, node: ast.UnaryOp) -> Term:
        if isinstance(node.op, ast.Not):
            return self._value(BOOL, f"xor i1 {self._truth(node.operand).text}, true")
        if not isinstance(node.op, ast.USub):
            self._unknown(node)
        if isinstance(node.operand, ast.Constant):
            return self._constant(ast.Constant(-node.operand.value))  # type: ignore[operator]
        value = self._lowered(node.operand)
        return self._value(FLOAT, f"fneg double {self._as(value, FLOAT).text}")

    def _compare(self, node: ast.Compare) -> Term:
        (op,), (right,) = node.ops, node.comparators
        one, other = self._lowered(node.left), self._lowered(right)
        ints, floats = COMPARED[type(op)]
        of = FLOAT if FLOAT in (one.of, other.of) else INT
        a, b = self._as(one, of), self._as(other, of)
        test = f"fcmp {floats}" if of == FLOAT else f"icmp {ints}"
        return self._value(BOOL, f"{test} {of} {a.text}, {b.text}")

    def _truth(self, node: ast.expr) -> Term:
        return self._as(self._lowered(node), BOOL)

    def _boolop(self, node: ast.BoolOp) -> Term:
        """Translate `and` or `or`: later operands are computed only if they count."""
        name = self._labels("both.")[0]
        (end,) = self._labels("end")
        for number, operand in enumerate(node.values):
            value = self._truth(operand)
            self._store(name, value)
            if number < len(node.values) - 1:
                (more,) = self._labels("more")
                ways = (more, end) if isinstance(node.op, ast.And) else (end, more)
                self._put(f"br i1 {value.text}, label %{ways[0]}, label %{ways[1]}")
                self._begin(more)
        self._put(f"br label %{end}")
        self._begin(end)
        return self._read(name)

    def _ifexp(self, node: ast.IfExp) -> Term:
        """Translate a choice between two values. Both are computed, since no expression changes or raises anything."""
        test, one, other = self._truth(node.test), self._lowered(node.body), self._lowered(node.orelse)
        of = one.of if one.of == other.of else FLOAT if FLOAT in (one.of, other.of) else INT
        a, b = self._as(one, of), self._as(other, of)
        return self._value(of, f"select i1 {test.text}, {of} {a.text}, {of} {b.text}")

    def _call(self, node: ast.Call) -> Term:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in ("i64", "u64", "float"):
            return self._as(self._lowered(node.args[0]), FLOAT if name == "float" else INT)
        return self._called(node)[1]

    def _called(self, node: ast.expr) -> tuple[tuple[str, ...], Term]:
        """Write a call; return the types of its results, and all results as one value."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return self._unknown(node)  # type: ignore[no-any-return]
        name = node.func.id
        values = [self._lowered(one) for one in node.args]
        if name in SIGNATURES:
            takes, parts = SIGNATURES[name]
            values = [self._as(value, of) for value, of in zip(values, takes, strict=True)]
        elif self._functions.has(name):
            parts = self._functions.made(name, tuple(value.of for value in values))
        else:
            self._unknown(node)
        given = (f"{'ptr' if value.of.startswith('*') else value.of} {value.text}" for value in values)
        returned = returned_type(parts)
        return parts, self._value(returned, f"call {returned} @{name}({', '.join(given)})")


def _float(value: float) -> Term:
    return Term(FLOAT, f"0x{struct.pack('>d', value).hex().upper()}")
