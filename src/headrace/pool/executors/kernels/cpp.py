"""C++ functions of kernels, which stand in a header beside the Python module that uses them.

Warp takes the body of a native function as text. In a header it is a whole function, which `native/tests` compile, too.
"""

import re
from functools import cache
from pathlib import Path

TYPES = re.compile(r"^(?:enum|struct)\b(?:[^\n]*\};|.*?^\};)$", re.MULTILINE | re.DOTALL)
BODY = r"^\w[^;{{}}]*\b{}\([^;{{}}]*\) {{\n(.*?)^}}$"


def cpp(module_file: str, name: str) -> str:
    """Returns the body of a C++ function, for `warp.func_native`.

    The header's enums and structs come first in it. Warp's hash of a kernel covers this text, so that a change of the
    header compiles the kernel again.

    Args:
        module_file: ``__file__`` of the Python module, whose header has the same name.
        name: the function's name.

    Raises:
        LookupError: the header has no such function.
    """
    header = Path(module_file).with_suffix(".h")
    text = _text(header)
    found = re.search(BODY.format(re.escape(name)), text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise LookupError(f"{header}: no function {name} begins, and ends with a brace, in the first column")
    return "\n".join(["", *TYPES.findall(text), found[1]])


@cache
def _text(header: Path) -> str:
    return header.read_text(encoding="utf-8")
