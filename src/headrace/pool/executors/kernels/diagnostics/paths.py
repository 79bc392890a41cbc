"""Finds mistakes in a function's source that compile, but to code that differs from the source's meaning.

A path without a return statement returns zeros; a struct is passed by value, so that assigning one of its fields as a
whole has no effect; a table is shared by all environments; and Warp evaluates the condition of an `if` again before its
`else`, when the first branch may have changed its value.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from headrace.pool.executors.kernels.diagnostics.mistakes import RESULTS, mistake
from headrace.pool.executors.kernels.launch import COMPILING


def check_source(env: Any, function: Any, state_at: int = 0) -> None:
    """Raises `KernelError` for a path without a return, an assignment without effect, or a condition read twice.

    ``state_at`` is the position of the argument ``state``.
    """
    try:
        source = textwrap.dedent(inspect.getsource(function.func))
    except (OSError, TypeError):  # the function has no source file
        return
    with COMPILING:  # Python 3.11 cannot parse in two threads at once, and Warp parses too
        definition = ast.parse(source).body[0]
    assert isinstance(definition, ast.FunctionDef)
    first = function.func.__code__.co_firstlineno - 1
    for which, what in RESULTS.items():
        if getattr(env, which, None) is function and not _returns(definition.body):
            last = definition.body[-1]
            problem = f"{which} must return {what}; here it can come to its end without"
            raise mistake(env, problem, function, first + last.lineno)
    for line, read in _read_twice(definition):
        problem = f"Warp reads {read} again before the else, after it was set: write `now = {read}` and `if now:`"
        raise mistake(env, problem, function, first + line)
    state = definition.args.args[state_at].arg
    for target in _written(definition):
        field = target.value if isinstance(target, ast.Subscript) else target
        if not (isinstance(field, ast.Attribute) and ast.unparse(field.value) == state):
            continue
        if field is target:
            problem = f"{ast.unparse(field)} is set as a whole, which changes nothing: set elements of arrays"
        elif field.attr in env.tables:
            problem = f"{ast.unparse(field)} is a table, which all environments share and none may write"
        else:
            continue
        raise mistake(env, problem, function, first + target.lineno)


def _returns(body: Sequence[ast.stmt]) -> bool:
    """Returns whether every path through these statements ends in a return of something."""
    last = body[-1]
    if isinstance(last, ast.Return):
        return last.value is not None
    return isinstance(last, ast.If) and _returns(last.body) and bool(last.orelse) and _returns(last.orelse)


def _written(definition: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(definition):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from target.elts if isinstance(target, ast.Tuple) else (target,)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            yield node.target


def _read_twice(definition: ast.FunctionDef) -> Iterator[tuple[int, str]]:
    """Yields line and text of each `if` condition, with an `else`, that reads an array which its branch writes."""
    for node in ast.walk(definition):
        if not (isinstance(node, ast.If) and node.orelse):
            continue
        test = node.test.operand if isinstance(node.test, ast.UnaryOp) else node.test
        if isinstance(test, ast.Subscript):
            array = ast.unparse(test.value)
            written = _written(ast.Module(node.body, []))
            if any(isinstance(target, ast.Subscript) and ast.unparse(target.value) == array for target in written):
                yield node.lineno, ast.unparse(test)
