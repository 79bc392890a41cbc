"""Every public module, class, function and method of Headrace outside `envs/` has a docstring.

Left out are names that start with an underscore (so also `__init__` and other special methods, which the class's
docstring describes), properties and overloads, functions within functions, and methods that override one with a
docstring in a base class of Headrace.
"""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src" / "headrace"
FILES = [path for path in sorted(SOURCES.rglob("*.py")) if path.relative_to(SOURCES).parts[0] != "envs"]
EXEMPT = {"property", "cached_property", "setter", "overload"}  # decorators of functions without a docstring
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


def undocumented(body: list[ast.stmt], known: Classes, cls: ast.ClassDef | None = None) -> Iterator[str]:
    """The line and name of each public class, function and method in ``body`` without a docstring."""
    for node in body:
        if isinstance(node, ast.If | ast.Try):
            yield from undocumented([*node.body, *node.orelse], known, cls)
        if not isinstance(node, ast.ClassDef | Function) or node.name.startswith("_"):
            continue
        if isinstance(node, ast.ClassDef):
            yield from undocumented(node.body, known, node)
        exempt = EXEMPT & {last_name(decorator) for decorator in node.decorator_list}
        if exempt or (cls is not None and is_documented_by_a_base(cls, node.name, known)):
            continue
        if not ast.get_docstring(node):
            yield f"{node.lineno}: {f'{cls.name}.' if cls else ''}{node.name}"


def test_every_public_name_has_a_docstring() -> None:
    known = known_classes()
    missing = [f"{path.relative_to(SOURCES)}" for path in FILES if not ast.get_docstring(parsed(path))]
    for path in FILES:
        missing += [f"{path.relative_to(SOURCES)}:{found}" for found in undocumented(parsed(path).body, known)]
    assert not missing, "\n".join(["without a docstring:", *missing])


def test_a_missing_docstring_is_found() -> None:
    source = '''
class Base:
    """Documented."""
    def step(self): "Steps."
class Child(Base):
    def step(self): ...
    def reset(self): ...
    @property
    def size(self): ...
def function(): ...
def _private(): ...
'''
    body = ast.parse(source).body
    known = {node.name: [node] for node in body if isinstance(node, ast.ClassDef)}
    assert list(undocumented(body, known)) == ["7: Child.reset", "5: Child", "10: function"]
