"""Files of tasks: what they say is what runs."""

from __future__ import annotations

import os
import py_compile
from pathlib import Path

from headrace.pool.sources import import_source


def test_compiled_code_beside_a_file_is_not_run(tmp_path: Path) -> None:
    file = tmp_path / "a_sent_file.py"
    file.write_text("SAID = 'other'\n")
    compiled = py_compile.compile(str(file), doraise=True)
    stamp = file.stat()
    file.write_text("SAID = 'this!'\n")  # as long, and as old
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert compiled is not None and Path(compiled).is_file()
    assert import_source(str(file)).SAID == "this!"
