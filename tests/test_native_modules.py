"""The compiled modules: errors for a missing or an unfit one, and pins that must agree."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

import headrace
from headrace import native_modules
from headrace.native_modules import ATARI, BOX2D, BUILT_FROM, LEARNER, MUJOCO, NEVER

ROOT = Path(__file__).parents[1]
HIDDEN = """
import sys
from importlib.abc import MetaPathFinder
class Hide(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] == {package!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hide())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name.startswith({package!r}) else found(name, *rest)
import headrace
try:
    headrace.make({task!r}, num_envs=1)
except headrace.HeadraceError as error:
    print(type(error).__name__, error)
"""


def read(path: str) -> dict:
    return tomllib.loads((ROOT / path).read_text())


@pytest.mark.parametrize(("package", "task", "extra"), [("headrace_atari", "Pong-v5", "atari")])
def test_a_missing_module_is_named_with_the_command_that_installs_it(package: str, task: str, extra: str) -> None:
    program = HIDDEN.format(package=package, task=task)
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {NEVER: "1"}, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f"OptionError {package.replace('_', '-')} is not installed: pip install ")
    assert f"native/{extra}" in done.stdout or f"headrace[{extra}]" in done.stdout


def test_a_module_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    package = pytest.importorskip("headrace_atari")
    monkeypatch.setattr(package, "__version__", "0.0.7")
    with pytest.raises(
        headrace.HeadraceError, match=r"headrace-atari 0\.0\.7 does not fit headrace .*--force-reinstall"
    ):
        headrace.make("Pong-v5", num_envs=1)


def test_a_module_older_than_its_sources_is_outdated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for folder in ("native/engine", "native/atari", "cmake"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("native/atari/pyproject.toml", "native/engine/pool.hpp", "CMakeLists.txt"):
        (tmp_path / file).write_text("")
    package = tmp_path / "headrace_atari"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.setattr(native_modules, "checkout", lambda: tmp_path)
    monkeypatch.setattr(
        native_modules, "find_spec", lambda name: ModuleSpec(name, None, origin=str(package / "__init__.py"))
    )
    assert not ATARI.outdated(), "what came as a wheel is not built anew"
    (package / BUILT_FROM).write_text(ATARI._digest())
    assert not ATARI.outdated()
    (tmp_path / "native/mujoco").mkdir()
    (tmp_path / "native/mujoco/task.hpp").write_text("of another module")
    assert not ATARI.outdated()
    (tmp_path / "native/engine/pool.hpp").write_text("int changed;")
    assert ATARI.outdated()
    ATARI.note()  # as `make setup` does, which has just installed it
    assert not ATARI.outdated()


def test_losses_beside_their_algorithms_are_sources_of_the_learner(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    losses = tmp_path / "src/headrace/train/algorithms/ppo"
    losses.mkdir(parents=True)
    (tmp_path / "CMakeLists.txt").touch()
    monkeypatch.setattr(native_modules, "checkout", lambda: tmp_path)
    digests = [LEARNER._digest()]
    for name in ("ppo.py", "ppo.hpp"):
        (losses / name).write_text("changed")
        digests.append(LEARNER._digest())
    assert digests[0] == digests[1] != digests[2]


def test_sources_that_another_user_may_have_written_are_not_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sources = tmp_path / "native" / "atari"
    sources.mkdir(parents=True)
    (sources / "pyproject.toml").write_text("")
    monkeypatch.setattr(native_modules, "checkout", lambda: tmp_path)
    monkeypatch.delenv(NEVER, raising=False)
    assert ATARI.can_build()
    for foreign in (sources, sources / "pyproject.toml"):
        foreign.chmod(0o777)
        assert not ATARI.can_build() and str(tmp_path) in ATARI.remedy()
        foreign.chmod(0o755)
    assert ATARI.can_build()
    if os.getuid() == 0:
        os.chown(sources, 65534, 65534)
    else:
        monkeypatch.setattr(os, "getuid", lambda: sources.stat().st_uid + 1)
    assert not ATARI.can_build()
    monkeypatch.setattr(ATARI.__class__, "installed", lambda self: False)
    with pytest.raises(headrace.HeadraceError, match=r"other users can write .*; if you trust it, pip install"):
        ATARI.prepare()
    monkeypatch.setattr(ATARI.__class__, "installed", lambda self: True)
    monkeypatch.setattr(ATARI.__class__, "outdated", lambda self: True)
    with pytest.warns(UserWarning, match="headrace-atari is not built anew from its sources, which have changed"):
        ATARI.prepare()


def test_an_installed_copy_finds_its_checkout(tmp_path: Path) -> None:
    """A copy of the package in another folder, with what pip notes beside it."""
    site, checkout = tmp_path / "site", tmp_path / "a checkout"
    shutil.copytree(ROOT / "src" / "headrace", site / "headrace", ignore=shutil.ignore_patterns("__pycache__"))
    (checkout / "native" / "learner").mkdir(parents=True)
    (checkout / "native" / "learner" / "pyproject.toml").touch()
    noted = site / f"headrace-{headrace.__version__}.dist-info"
    noted.mkdir()
    (noted / "METADATA").write_text(f"Metadata-Version: 2.1\nName: headrace\nVersion: {headrace.__version__}\n")
    (noted / "direct_url.json").write_text(json.dumps({"url": checkout.as_uri(), "dir_info": {}}))
    program = "from headrace.native_modules import LEARNER, MUJOCO; print(LEARNER.can_build(), MUJOCO.can_build())"
    environment = {name: value for name, value in os.environ.items() if name != NEVER} | {"PYTHONPATH": str(site)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "True False", done.stderr


def test_versions_of_the_package_and_its_modules_agree() -> None:
    versions = {
        read(f"{folder}pyproject.toml")["project"]["version"]
        for folder in ("", *(f"native/{module.folder}/" for module in (ATARI, BOX2D, LEARNER, MUJOCO)))
    }
    assert versions == {headrace.__version__}
    for module in (ATARI, BOX2D, LEARNER, MUJOCO):
        file = ROOT / "native" / module.folder / "python" / module.package / "__init__.py"
        assert f'__version__ = "{headrace.__version__}"' in file.read_text()


def test_mujocos_pin_equals_that_of_the_constraints() -> None:
    project = read("native/mujoco/pyproject.toml")
    pins = dict(re.findall(r"^(mujoco(?:-core)?)==(\S+)", (ROOT / "constraints.txt").read_text(), re.M))
    assert f"mujoco-core=={pins['mujoco-core']}" in project["build-system"]["requires"]
    assert project["project"]["dependencies"] == [f"mujoco=={pins['mujoco']}"]
    extras = read("pyproject.toml")["project"]["optional-dependencies"]
    assert all(f"mujoco=={pins['mujoco']}" in extras[name] for name in ("mujoco", "dm-control"))


@pytest.mark.nightly
def test_a_checkout_builds_a_missing_module_for_its_first_pool(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", str(tmp_path / "venv")], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    others = [path for path in sys.path if "site-packages" in path]
    kept = tmp_path / "packages"
    kept.mkdir()
    for folder in map(Path, others):
        for entry in folder.iterdir():
            if not entry.name.startswith(("headrace_", "_headrace")) and not (kept / entry.name).exists():
                (kept / entry.name).symlink_to(entry)
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{kept}"}
    environment.pop("HEADRACE_NO_BUILD", None)
    program = "import headrace; print(headrace.make('HalfCheetah-v5', num_envs=1).reset()[0].shape)"
    done = subprocess.run([python, "-c", program], env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "(1, 17)", done.stderr
    assert "building the MuJoCo tasks" in done.stderr and "built in" in done.stderr
    note = next((tmp_path / "venv").rglob(f"headrace_mujoco/{BUILT_FROM}"))
    note.write_text("of sources that have changed since")
    newer = subprocess.run([python, "-c", program], env=environment, capture_output=True, text=True)
    assert newer.stdout.strip() == "(1, 17)" and "building the MuJoCo tasks" in newer.stderr
    again = subprocess.run([python, "-c", program], env=environment, capture_output=True, text=True)
    assert again.stdout.strip() == "(1, 17)" and "building" not in again.stderr


@pytest.mark.nightly
def test_the_wheels_work_in_an_empty_environment(tmp_path: Path) -> None:
    tools = ROOT / "tools"
    subprocess.run([sys.executable, str(tools / "wheels.py"), "--out", str(tmp_path)], check=True)
    for wheel in tmp_path.glob("headrace_*.whl"):  # each holds the licences of what is compiled into it
        held = [Path(name).name for name in zipfile.ZipFile(wheel).namelist()]
        own = {"atari": ["LICENSE-ALE.md"], "box2d": ["LICENSE-Box2D.txt"]}.get(wheel.name.split("-")[0][9:], [])
        assert {"LICENSE", "LICENSE-nanobind.txt", "LICENSE-robin_map.txt", *own} <= set(held), wheel.name
    done = subprocess.run(
        [sys.executable, str(tools / "try_wheels.py"), "--dist", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_pools_step_without_the_modules_of_unix() -> None:
    code = """
import sys
sys.modules |= dict.fromkeys(("fcntl", "resource", "termios", "pty"))
import numpy as np
import headrace
with headrace.make("CartPole-v1", num_envs=2) as pool:
    pool.reset()
    print(pool.step(np.zeros(2, np.int64))[1])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200, check=False)
    assert done.stdout.strip() == "[1. 1.]", done.stderr
