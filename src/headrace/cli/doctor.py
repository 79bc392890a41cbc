"""``headrace doctor``: reports what Headrace uses of this machine, what is missing, and how to add it."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

import headrace
from headrace.cli.options import parse_args
from headrace.errors import HeadraceError
from headrace.machine import cores, cpu_model, free_memory, readable, sizes_in
from headrace.native_modules import ATARI, BOX2D, LEARNER, MUJOCO, NativeModule
from headrace.pool.cache import cache_folder

State = Literal["ok", "missing", "broken"]
MARKS = {"ok": "[green]✓[/]", "missing": "[yellow]–[/]", "broken": "[red]✗[/]"}
INTERNAL = {"bench", "dev", "docs", "environments", "libraries"}
"""extras for the development of Headrace, which the report omits"""
SHARED_MEMORY = Path("/dev/shm")
LEAST_SHARED = 2**30  # bytes; a replay of images takes several hundred MiB
LEAST_FILES = 4096  # open files; each worker process of a large pool needs several
SECONDS = 20.0  # time limit of other programs


@dataclass(frozen=True)
class Finding:
    """A line of the report.

    Attributes:
        group: heading under which the line is printed.
        name: the item that was examined.
        state: "ok", "missing" (Headrace works without it), or "broken".
        found: description of the item as it is.
        remedy: the command or step that adds or repairs it; empty if there is nothing to do.
    """

    group: str
    name: str
    state: State
    found: str
    remedy: str = ""


@dataclass(frozen=True)
class DoctorArgs:
    """Report what Headrace uses of this machine, what is missing, and the commands that add it.

    Please include the report in issues; it contains no names of users or of their files. The exit status is 1 if
    something that is installed does not work.

    examples:
      headrace doctor
      headrace doctor --json
    """

    json: bool = False
    """print the report as JSON"""


def run(argv: list[str]) -> int:
    """Prints the report; returns the exit status."""
    args = parse_args(DoctorArgs, "doctor", argv, "headrace check TASK tests a task", "options alone")
    findings = [finding for check in CHECKS for finding in check()]
    if args.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=1))
    else:
        _print(findings)
    return int(any(finding.state == "broken" for finding in findings))


def _print(findings: list[Finding]) -> None:
    console = Console(highlight=False)
    grouped: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        grouped[finding.group].append(finding)
    for group, members in grouped.items():
        console.print(f"\n[bold]{group}[/]")
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=1)
        table.add_column(min_width=16, no_wrap=True)
        table.add_column()
        for each in members:
            remedy = f"\n[cyan]{_escaped(each.remedy)}[/]" if each.remedy else ""
            table.add_row(MARKS[each.state], each.name, f"{_escaped(each.found)}{remedy}")
        console.print(table)
    missing = sum(bool(finding.remedy) for finding in findings)
    advice = f"\n{missing} of {len(findings)} missing or slow: below each is the command or advice"
    console.print(advice if missing else "")


def _escaped(text: str) -> str:
    """Returns the text with the brackets of extras escaped, which rich would read as markup."""
    return text.replace("[", r"\[")


# -- checks ------------------------------------------------------------------------------------------


def system() -> Iterator[Finding]:
    yield Finding("system", "headrace", "ok", headrace.__version__)
    yield Finding("system", "python", "ok", f"{platform.python_version()} ({platform.python_implementation()})")
    libc = " ".join(platform.libc_ver())
    linux = sys.platform == "linux"
    remedy = "" if linux else "tested on Linux only: process pools and compiled tasks need it"
    yield Finding("system", "system", "ok", f"{platform.system()} {platform.machine()} {libc}".strip(), remedy)


def machine() -> Iterator[Finding]:
    yield Finding("machine", "cores", "ok", str(cores()))
    yield Finding("machine", "processor", "ok", cpu_model())
    total = sizes_in(Path("/proc/meminfo")).get("MemTotal")
    try:
        free = readable(free_memory())
    except OSError:
        free = "an unknown amount"
    yield Finding("machine", "memory", "ok", f"{free} free" + (f" of {readable(total)}" if total else ""))
    if SHARED_MEMORY.is_dir():
        size = shutil.disk_usage(SHARED_MEMORY)
        small = size.total < LEAST_SHARED
        remedy = "workers share memory there: docker run --shm-size=4g …, or mount a larger /dev/shm" if small else ""
        found = f"{readable(size.free)} free of {readable(size.total)}"
        yield Finding("machine", "shared memory", "missing" if small else "ok", found, remedy)
    yield from _files()


def _files() -> Iterator[Finding]:
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = soft < LEAST_FILES and soft != resource.RLIM_INFINITY
    remedy = f"ulimit -n {hard}" if few and hard > soft else ""
    yield Finding("machine", "open files", "missing" if remedy else "ok", f"{soft:,} at most", remedy)


def compiled() -> Iterator[Finding]:
    for module, before in ((ATARI, ""), (BOX2D, ""), (LEARNER, ""), (MUJOCO, "mujoco")):
        loaded = _loaded(module, before)
        yield loaded
        if module is MUJOCO and loaded.state == "ok":
            yield _lanes()
    if importlib.util.find_spec("warp") is not None:
        version = metadata.version("warp-lang")
        yield Finding("compiled", "kernels", "ok", f"Warp {version} compiles them when they are first used")
    folder = cache_folder()
    parent = next(path for path in (folder, *folder.parents) if path.exists())
    if os.access(parent, os.W_OK):
        yield Finding("compiled", "cache", "ok", "writable")
    else:
        yield Finding("compiled", "cache", "broken", "read-only", "export XDG_CACHE_HOME=… to a folder of yours")


def _loaded(module: NativeModule, before: str) -> Finding:
    name = module.distribution
    if not module.installed():
        remedy = "" if module.can_build() else module.remedy()
        found = "not built yet: this checkout builds it when it is first asked for" if not remedy else "not installed"
        return Finding("compiled", name, "missing", found, remedy)
    try:
        if before:
            importlib.import_module(before)
        module.load()
    except (HeadraceError, ImportError) as error:
        return Finding("compiled", name, "broken", str(error), module.remedy(again=True))
    return Finding("compiled", name, "ok", importlib.import_module(module.package).__version__)


def _lanes() -> Finding:
    """Returns a finding about ``physics="lanes"`` of MuJoCo tasks."""
    widths = MUJOCO.load().lane_widths()
    found = f"a thread steps {widths[0]} robots at once" if widths else "not on this processor: libmujoco steps robots"
    return Finding("compiled", "lanes", "ok", found)


def learning() -> Iterator[Finding]:
    if importlib.util.find_spec("torch") is None:
        yield Finding("learning", "torch", "missing", "not installed", "pip install 'headrace[train]'")
        return
    from headrace.train.modules.compiled import described, why_torch_here

    reason = why_torch_here()
    import torch  # after `headrace.train`, which limits its threads to the cores

    yield Finding("learning", "torch", "ok", f"{torch.__version__}, {torch.get_num_threads()} threads")
    yield Finding("learning", "updates", "ok", f"torch ({reason})" if reason else described())
    cards = _cards()
    if torch.cuda.is_available():
        for i in range(torch.cuda.device_count()):
            card = torch.cuda.get_device_properties(i)
            yield Finding("learning", f"cuda:{i}", "ok", f"{card.name}, {readable(card.total_memory)}")
    elif cards:
        build = torch.version.cuda
        why = f"torch is built for CUDA {build} and does not find it" if build else "this torch is built for CPUs"
        remedy = "update the driver" if build else "install torch's build for CUDA: see its installation page"
        yield Finding("learning", "GPU", "broken", f"{', '.join(cards)}; {why}", remedy)
    else:
        yield Finding("learning", "GPU", "missing", "none: everything runs on the processor")


def _cards() -> list[str]:
    if (tool := shutil.which("nvidia-smi")) is None:
        return []
    command = [tool, "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.strip().splitlines() if done.returncode == 0 else []


def pictures() -> Iterator[Finding]:
    found = [name for name, library in (("EGL", "libEGL.so.1"), ("OSMesa", "libOSMesa.so.8")) if _opens(library)]
    remedy = "" if found else "apt-get install libegl1 libgl1-mesa-dri, or libosmesa6"
    words = " and ".join(found) if found else "none: pictures of robots cannot be drawn"
    yield Finding("pictures", "OpenGL", "ok" if found else "missing", words, remedy)
    for package, what in (("av", "videos"), ("matplotlib", "plots")):
        there = importlib.util.find_spec(package) is not None
        extra = {"av": "train", "matplotlib": "plots"}[package]
        remedy = "" if there else f"pip install 'headrace[{extra}]'"
        yield Finding("pictures", what, "ok" if there else "missing", package if there else "not installed", remedy)


def _opens(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def extras() -> Iterator[Finding]:
    wanted: dict[str, list[str]] = defaultdict(list)
    for line in metadata.requires("headrace") or ():
        named = re.match(r"([\w.-]+)", line)
        if (extra := re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", line)) and named:
            wanted[extra[1]].append(named[1])
    for extra, packages in sorted(wanted.items()):
        if extra in INTERNAL:
            continue
        missing = [package for package in packages if not _is_there(package)]
        words = f"without {', '.join(missing)}" if missing else ", ".join(packages)
        remedy = f"pip install 'headrace[{extra}]'" if missing else ""
        yield Finding("extras", extra, "missing" if missing else "ok", words, remedy)


def _is_there(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (system, machine, compiled, learning, pictures, extras)
