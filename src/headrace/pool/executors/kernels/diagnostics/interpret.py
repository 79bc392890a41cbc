"""Runs Warp functions as plain Python, from the same source and with the same results, and checks every index.

In compiled code an index out of range reads or writes unrelated memory. Interpreted code raises `IndexError` at the
author's line; breakpoints and ``print`` work.

The functions' source is kept line by line, with Warp's arithmetic in place of Python's: integers wrap around and
divide towards zero, and numbers have the type that they have in a kernel. Scalars are NumPy scalars, vectors and
matrices are Warp's own, and Warp's built-in functions are called directly. A plain Python number behaves like a
literal in a kernel: it becomes an int32 or float32 in arithmetic. Loops are limited by `patience`.
"""

from __future__ import annotations

import ast
import builtins
import copy
import enum
import functools
import inspect
import math
import operator
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import warp as wp

from headrace.pool.executors.kernels.agents import barrier, whose_turn
from headrace.pool.executors.kernels.diagnostics.checked import NUMPY, Array, Record
from headrace.pool.executors.kernels.diagnostics.mistakes import FUNCTION, STRUCT
from headrace.pool.executors.kernels.diagnostics.patience import LoopCounter, in_time, say
from headrace.pool.executors.kernels.diagnostics.printing import printf
from headrace.pool.executors.kernels.diagnostics.races import agent_acting, barrier_passed

PREFIX = "_headrace_"  # prefix of names that only translated functions use
COMPONENTS = ("x", "y", "z", "w")


@functools.cache
def as_python(function: Any) -> Callable[..., Any]:
    """Returns a Warp function or kernel as a Python function over `Array` and `Record` arguments."""
    source = function.func
    tree = ast.parse(textwrap.dedent(inspect.getsource(source)))
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    if getattr(function, "native_snippet", None) is not None and _is_stub(definition.body[-1]):
        raise NotImplementedError(f"{function.key} is native code without a Python body, which debug mode cannot run")
    definition.decorator_list, definition.returns = [], None
    for argument in ast.walk(definition.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    closed = inspect.getclosurevars(source).nonlocals
    scope: dict[str, Any] = {PREFIX + name: helper for name, helper in HELPERS.items()}
    translated = _Translator(source, closed, scope).visit(tree)
    ast.increment_lineno(ast.fix_missing_locations(translated), source.__code__.co_firstlineno - 1)
    exec(compile(translated, source.__code__.co_filename, "exec"), scope)
    return scope[definition.name]


def _is_stub(last: ast.stmt) -> bool:
    return isinstance(last, ast.Pass) or (isinstance(last, ast.Expr) and isinstance(last.value, ast.Constant))


class _Translator(ast.NodeTransformer):
    """A transformer that replaces arithmetic and indexing by helpers, and adds objects that names denote to a scope."""

    def __init__(self, function: Any, closed: Mapping[str, Any], scope: dict[str, Any]):
        self._known = vars(builtins) | function.__globals__ | dict(closed)
        self._local = {*function.__code__.co_varnames, *function.__code__.co_cellvars}
        self._scope = scope

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self._local and isinstance(node.ctx, ast.Load):
            if node.id in self._known:
                self._scope[node.id] = _meaning(self._known[node.id], node.id)
            elif node.id in WRITTEN_OUT or isinstance(getattr(wp, node.id, None), FUNCTION):
                self._scope[node.id] = _meaning(WRITTEN_OUT.get(node.id) or getattr(wp, node.id), node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if isinstance(place := _component(node), ast.Subscript):
            return self.visit(place)
        found, value = self._constant(node)
        if found:
            name = PREFIX + ast.unparse(node).replace(".", "_dot_")
            self._scope[name] = _meaning(value, node.attr)
            return ast.copy_location(ast.Name(name, ast.Load()), node)
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            return self._call("attribute", node, node.value, ast.Constant(node.attr))
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        outer = node.value
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            return self._call("load", node, node.value, node.slice)
        node.slice = self._call("index", node.slice, node.slice)
        if isinstance(outer, ast.Subscript) and isinstance(node.value, ast.Call):
            node.value.func = ast.copy_location(ast.Name(PREFIX + "element", ast.Load()), node)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        return self._call(type(node.op).__name__, node, node.left, node.right)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not | ast.UAdd):
            return node
        return self._call(type(node.op).__name__, node, node.operand)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        node.target = _component(node.target)
        if isinstance(node.target, ast.Subscript) and type(node.op).__name__ in ATOMIC_OPERATORS:
            place = self.visit(node.target)
            operator_name = ast.Constant(type(node.op).__name__)
            call = self._call("augment", node.target, operator_name, place.value, place.slice, self.visit(node.value))
            return ast.copy_location(ast.Expr(call), node)
        before = copy.deepcopy(node.target)
        before.ctx = ast.Load()
        value = ast.copy_location(ast.BinOp(before, node.op, node.value), node)
        return self.visit(ast.copy_location(ast.Assign([node.target], value), node))

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        named = isinstance(node.value, ast.Name | ast.Attribute)
        self.generic_visit(node)
        if named:  # a vector has a value, not an identity
            node.value = self._call("by_value", node.value, node.value)
        return node

    def visit_For(self, node: ast.For) -> ast.stmt:
        self.generic_visit(node)
        node.iter = self._call("in_time", node.iter, node.iter)
        return node

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        self.generic_visit(node)
        rounds = f"{PREFIX}rounds_{node.lineno}_{node.col_offset}"
        begin = ast.Assign([ast.Name(rounds, ast.Store())], self._call("Rounds", node.test))
        again = ast.copy_location(ast.Call(ast.Name(rounds, ast.Load()), [], []), node.test)
        node.test = ast.copy_location(ast.BoolOp(ast.And(), [again, node.test]), node.test)
        return [ast.copy_location(begin, node), node]

    def _call(self, helper: str, at: ast.expr, *arguments: ast.expr) -> ast.expr:
        call = ast.Call(ast.Name(PREFIX + helper, ast.Load()), list(arguments), [])
        return ast.copy_location(call, at)

    def _constant(self, node: ast.expr) -> tuple[bool, Any]:
        """Returns whether a dotted name refers to an object outside of the function, and that object."""
        if isinstance(node, ast.Name):
            known = node.id not in self._local and node.id in self._known
            return known, self._known.get(node.id)
        if isinstance(node, ast.Attribute):
            found, of = self._constant(node.value)
            if found and of is wp and node.attr in WRITTEN_OUT:
                return True, WRITTEN_OUT[node.attr]
            if found and hasattr(of, node.attr):
                return True, getattr(of, node.attr)
        return False, None


def _component(target: Any) -> Any:
    """Returns an assigned ``of[index].x`` as ``of[index][0]``, which changes the vector in memory, not a copy."""
    if not isinstance(target, ast.Attribute) or not isinstance(target.ctx, ast.Store):
        return target
    if not isinstance(target.value, ast.Subscript) or target.attr not in COMPONENTS:
        return target
    place = ast.Subscript(target.value, ast.Constant(COMPONENTS.index(target.attr)), target.ctx)
    return ast.fix_missing_locations(ast.copy_location(place, target))


def _meaning(thing: Any, name: str) -> Any:
    """Returns the counterpart in interpreted code of an object from outside of a function."""
    if isinstance(thing, FUNCTION):
        return _builtin(thing) if thing.is_builtin() else functools.partial(_call_theirs, thing)
    if name in vars(builtins) and name not in ("range", "print", "len") and isinstance(vars(wp).get(name), FUNCTION):
        return _builtin(getattr(wp, name))
    if thing is print:
        return say
    if isinstance(thing, enum.Enum):
        return thing.value
    if isinstance(thing, type) and thing in NUMPY:
        return _Cast(thing)
    if isinstance(thing, STRUCT):
        return lambda: Record(thing.key, {name: _zero(var.type) for name, var in thing.vars.items()})
    if isinstance(thing, type) and hasattr(thing, "_wp_scalar_type_"):
        return lambda *given: thing(*map(_plain, given))
    return _normal(thing) if type(thing) in NUMPY and type(thing) not in (int, float, bool) else thing


class _Cast:
    """A function that converts a value to a scalar type."""

    def __init__(self, warp_type: Any):
        self.warp_type, self._numpy = warp_type, NUMPY[warp_type]

    def __call__(self, value: Any = 0) -> Any:
        return value if type(value) is self._numpy else np.asarray(value).astype(self._numpy)[()]


def _call_theirs(function: Any, *given: Any, **named: Any) -> Any:
    """Calls another of the author's functions; among overloads, the one for the arguments' types."""
    for overload in function.user_overloads.values() if len(function.user_overloads) > 1 else ():
        kinds = list(overload.input_types.values())
        if len(kinds) == len(given) and all(map(_fits, given, kinds)):
            return _callable(overload)(*given, **named)
    return _callable(function)(*given, **named)


def _fits(value: Any, kind: Any) -> bool:
    wanted = NUMPY.get(kind, kind) if isinstance(kind, type) else None
    return not isinstance(wanted, type) or isinstance(_number(value), wanted)


@functools.cache
def _callable(function: Any) -> Callable[..., Any]:
    """Returns another of the author's functions as a Python function; arguments are passed by value."""
    if function is barrier:
        return barrier_passed
    if function is whose_turn:
        return agent_acting
    python, signature, kinds = as_python(function), inspect.signature(function.func), function.input_types
    names = tuple(signature.parameters)
    casts = [NUMPY.get(kinds[name]) and _Cast(kinds[name]) for name in names]

    def call(*given: Any, **named: Any) -> Any:
        if named or len(given) != len(names):
            bound = signature.bind(*given, **named)
            bound.apply_defaults()
            given = tuple(bound.arguments[name] for name in names)
        return python(*[_taken(value, cast) for value, cast in zip(given, casts, strict=True)])

    return call


def _taken(value: Any, cast: _Cast | None) -> Any:
    if cast is not None and isinstance(value, np.generic | int | float):
        return cast(value)
    return _by_value(value)


def _by_value(value: Any) -> Any:
    if isinstance(value, Record):
        return copy.copy(value)
    return type(value)(value) if hasattr(type(value), "_wp_scalar_type_") else value


def _zero(kind: Any) -> Any:
    return _normal(kind()) if isinstance(kind, type) else None


def _number(value: Any) -> Any:
    """Returns a literal converted to the type that it has in arithmetic."""
    if isinstance(value, np.generic) or not isinstance(value, int | float):
        return value
    if isinstance(value, bool):
        return np.bool_(value)
    if isinstance(value, float):
        return np.float32(value)
    return np.int32(value) if -(2**31) <= value < 2**31 else np.int64(value)


def _plain(value: Any) -> Any:
    """Returns an argument in the form that Warp's functions take: scalar types as Warp's, booleans as Python's."""
    if isinstance(value, _Cast):
        return value.warp_type
    return bool(value) if isinstance(value, np.bool_) else value


def _normal(value: Any) -> Any:
    """Returns a result of Warp's functions in the types of interpreted code."""
    if isinstance(value, tuple):
        return tuple(map(_normal, value))
    if type(value) in NUMPY and not isinstance(value, bool):
        return NUMPY[type(value)](getattr(value, "value", value))
    return value


def _load(of: Any, index: Any) -> Any:
    if isinstance(of, Array):
        return of[index]
    return _normal(of[_index(index)])


def _index(index: Any) -> Any:
    """Returns an index in the form that Warp's vectors take."""
    return tuple(map(operator.index, index)) if isinstance(index, tuple) else operator.index(index)


def _attribute(of: Any, name: str) -> Any:
    value = getattr(of, name)
    return value if isinstance(of, Record | Array) else _normal(value)


def _arithmetic(plain: Callable[[Any, Any], Any], warp_function: Any) -> Callable[[Any, Any], Any]:
    def apply(a: Any, b: Any) -> Any:
        a, b = _number(a), _number(b)
        if isinstance(a, np.generic) and isinstance(b, np.generic):
            return plain(a, b)
        return _normal(warp_function(_plain(a), _plain(b)))

    return apply


def _whole(a: Any, b: Any) -> bool:
    if not (isinstance(a, np.integer) and isinstance(b, np.integer)):
        return False
    if b == 0:
        raise ZeroDivisionError(f"{a} divided by 0: compiled, this would end the process")
    return True


def _divide(a: Any, b: Any) -> Any:
    if not _whole(a, b):
        return a / b
    quotient = abs(int(a)) // abs(int(b))
    return np.result_type(a, b).type(quotient if (a < 0) == (b < 0) else -quotient)


def _floor_divide(a: Any, b: Any) -> Any:
    return a // b if _whole(a, b) else np.floor(a / b)


def _remainder(a: Any, b: Any) -> Any:
    """Returns the remainder of ``a / b`` with the sign of ``a``, as in C."""
    _whole(a, b)
    return np.fmod(a, b)


def _negative(a: Any) -> Any:
    a = _number(a)
    return np.negative(a) if isinstance(a, np.generic) else _normal(wp.neg(a))


def _builtin(function: Any) -> Callable[..., Any]:
    """Returns one of Warp's built-in functions; those that Python cannot call are reimplemented."""
    if function.key in WRITTEN_OUT:
        return WRITTEN_OUT[function.key]

    def call(*given: Any, **named: Any) -> Any:
        return _normal(function(*map(_plain, given), **{key: _plain(value) for key, value in named.items()}))

    return call


def _atomic(what: str, array: Array, *rest: Any) -> Any:
    """Changes one element of an array, for ``atomic_what(array, i, …, value)``; returns its old value."""
    *index, value = rest
    if what == "cas":
        compare = index.pop()
        return array.change(tuple(index), what, lambda before: value if before == compare else before)
    return array.change(tuple(index), COMMUTES_WITH.get(what, what), lambda before: ATOMIC[what](before, value))


def _augment(operator_name: str, of: Any, index: Any, value: Any) -> None:
    """Executes ``of[index] += value``, which Warp compiles to an atomic operation if the element's type has one."""
    operation = HELPERS[operator_name]
    if isinstance(of, Array) and of.dtype not in NOT_ATOMIC:
        of.change(index, ATOMIC_OPERATORS[operator_name], lambda before: operation(before, value))
    else:
        of[index] = operation(_load(of, index), value)


COMMUTES_WITH = {"sub": "add"}
ATOMIC_OPERATORS = {"Add": "add", "Sub": "add", "BitAnd": "and", "BitOr": "or", "BitXor": "xor"}
NOT_ATOMIC = (wp.int8, wp.uint8, wp.int16, wp.uint16)
ATOMIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": _arithmetic(operator.add, wp.add),
    "sub": _arithmetic(operator.sub, wp.sub),
    "min": min,
    "max": max,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "exch": lambda before, value: value,
}
WRITTEN_OUT: dict[str, Callable[..., Any]] = {
    "where": lambda condition, a, b: a if condition else b,
    "select": lambda condition, a, b: b if condition else a,
    "tid": lambda: np.int32(0),
    "len": len,
    "print": say,
    "printf": printf,
    "isnan": math.isnan,
    "isinf": math.isinf,
    "isfinite": math.isfinite,
    **{f"atomic_{what}": functools.partial(_atomic, what) for what in (*ATOMIC, "cas")},
}
HELPERS: dict[str, Callable[..., Any]] = {
    "in_time": in_time,
    "Rounds": LoopCounter,
    "load": _load,
    "index": _index,
    "element": lambda of, index: of.element(index) if isinstance(of, Array) else of[index],
    "attribute": _attribute,
    "by_value": _by_value,
    "augment": _augment,
    "USub": _negative,
    "Invert": lambda a: ~_number(a),
    "Add": _arithmetic(operator.add, wp.add),
    "Sub": _arithmetic(operator.sub, wp.sub),
    "Mult": _arithmetic(operator.mul, wp.mul),
    "MatMult": _arithmetic(operator.matmul, wp.mul),
    "Div": _arithmetic(_divide, wp.div),
    "FloorDiv": _arithmetic(_floor_divide, wp.floordiv),
    "Mod": _arithmetic(_remainder, wp.mod),
    "Pow": lambda a, b: _normal(wp.pow(_number(a), _number(b))),
    "LShift": _arithmetic(operator.lshift, wp.lshift),
    "RShift": _arithmetic(operator.rshift, wp.rshift),
    "BitAnd": _arithmetic(operator.and_, wp.bit_and),
    "BitOr": _arithmetic(operator.or_, wp.bit_or),
    "BitXor": _arithmetic(operator.xor, wp.bit_xor),
}
