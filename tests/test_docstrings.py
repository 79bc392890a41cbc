"""What docstrings are for: every module and public class says what it is, and functions give what a signature cannot.

Public functions and methods outside `envs/` that take arrays give their shapes, in words or as ``float32[B, A]``, and
those that raise Headrace's errors name them. A method that overrides one with a docstring needs none. Names in the
reference have docstrings, as it shows nothing else.
"""

import ast
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "headrace"
FILES = [path for path in sorted(SOURCES.rglob("*.py")) if path.relative_to(SOURCES).parts[0] != "envs"]
ENTRIES = re.findall(r"^::: (headrace\S*)", (ROOT / "docs" / "reference.md").read_text(), re.MULTILINE)
EXEMPT = {"property", "cached_property", "setter", "overload"}  # decorators of functions without a docstring
ARRAY = re.compile(r"(torch\.)?Tensor( \| None)?|np\.ndarray( \| None)?")
SHAPE = re.compile(r"\w*\[[^\]]*\]|shape|0-d|scalar|`[\w.]+`")  # or where another docstring gives it
ERROR = re.compile(r"raise|error|as `[\w.]+`", re.IGNORECASE)
Function = ast.FunctionDef | ast.AsyncFunctionDef
Classes = dict[str, list[ast.ClassDef]]  # by name, which several classes may share


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def known_classes() -> Classes:
    """All classes of Headrace."""
    found: Classes = {}
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(node)
    return found


def last_name(node: ast.expr) -> str:
    """The last part of a dotted name, also where it is called or subscripted: ``c`` of ``a.b.c[int]``."""
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return node.attr
        case ast.Subscript():
            return last_name(node.value)
        case ast.Call():
            return last_name(node.func)
    return ""


def is_documented_by_a_base(cls: ast.ClassDef, method: str, known: Classes) -> bool:
    """Whether a base class of ``cls`` has this method with a docstring."""
    for base in (found for name in map(last_name, cls.bases) for found in known.get(name, []) if found is not cls):
        own = [node for node in base.body if isinstance(node, Function) and node.name == method]
        if any(ast.get_docstring(node) for node in own) or is_documented_by_a_base(base, method, known):
            return True
    return False


def lacking(body: list[ast.stmt], known: Classes, cls: ast.ClassDef | None = None) -> Iterator[str]:
    """The line and name of each public class, function and method in ``body`` that lacks something, and what."""
    for node in body:
        if isinstance(node, ast.If | ast.Try):
            yield from lacking([*node.body, *node.orelse], known, cls)
        if not isinstance(node, ast.ClassDef | Function) or node.name.startswith("_"):
            continue
        where = f"{node.lineno}: {f'{cls.name}.' if cls else ''}{node.name}"
        if isinstance(node, ast.ClassDef):
            yield from lacking(node.body, known, node)
            if not ast.get_docstring(node):
                yield f"{where} has no docstring"
            continue
        exempt = EXEMPT & {last_name(decorator) for decorator in node.decorator_list}
        if not exempt and not (cls is not None and is_documented_by_a_base(cls, node.name, known)):
            of_class = (cls and ast.get_docstring(cls)) or ""
            yield from (f"{where} {what}" for what in _missing(node, ast.get_docstring(node) or "", of_class))


def _missing(function: Function, text: str, of_class: str) -> Iterator[str]:
    arguments = [*function.args.args, *function.args.kwonlyargs]
    arrays = [each.arg for each in arguments if each.annotation and ARRAY.fullmatch(ast.unparse(each.annotation))]
    arrays = [name for name in arrays if f"``{name}``" not in of_class]  # which gives it for all methods
    if arrays and not SHAPE.search(text):
        yield f"gives no shape of {', '.join(arrays)}"
    raised = {last_name(each.exc) for each in ast.walk(function) if isinstance(each, ast.Raise) and each.exc}
    raised = {name for name in raised if name.endswith("Error")} - {"NotImplementedError", "AssertionError"}
    if raised and not ERROR.search(text) and function.name != "run":  # of a command, which prints errors
        yield f"does not say when it raises {', '.join(sorted(raised))}"


def test_public_names_have_docstrings_that_complete_their_signatures() -> None:
    known = known_classes()
    missing = [f"{path.relative_to(SOURCES)} has no docstring" for path in FILES if not ast.get_docstring(parsed(path))]
    for path in FILES:
        missing += [f"{path.relative_to(SOURCES)}:{found}" for found in lacking(parsed(path).body, known)]
    assert not missing, "\n".join(["docstrings:", *missing])


def test_incomplete_docstrings_are_found() -> None:
    source = '''
class Base:
    """Documented."""
    def step(self, actions: Tensor): "Takes actions, [N]."
class Child(Base):
    def step(self, actions: Tensor): ...
    def reset(self, rows: np.ndarray | None): "Resets rows."
    @property
    def size(self): ...
def function(name: str): ...
def failing(name: str): raise OptionError(name)
def _private(x: Tensor): ...
'''
    body = ast.parse(source).body
    known = {node.name: [node] for node in body if isinstance(node, ast.ClassDef)}
    assert list(lacking(body, known)) == [
        "7: Child.reset gives no shape of rows",
        "5: Child has no docstring",
        "11: failing does not say when it raises OptionError",
    ]


@pytest.mark.parametrize("entry", [each for each in ENTRIES if not each.startswith("headrace.adapters.")])
def test_names_in_the_reference_have_docstrings(entry: str) -> None:
    module, _, name = entry.rpartition(".")
    found = (
        importlib.import_module(entry) if entry == "headrace.errors" else getattr(importlib.import_module(module), name)
    )
    assert inspect.getdoc(found) or not isinstance(found, type | FunctionType)
    methods = inspect.getmembers(found, inspect.isfunction) if inspect.isclass(found) else []
    for method, function in methods:
        assert method.startswith("_") or inspect.getdoc(function), f"{entry}.{method}"
