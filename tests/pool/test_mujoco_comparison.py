"""Before its first use in lanes, a new model is compared once with MuJoCo's step; a field that differs is named."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from mujoco_fuzz import exotic, model_of, shipped
from mujoco_generic import GENERIC

import headrace
from headrace.cli.main import main
from headrace.errors import OptionError
from headrace.mujoco import MujocoTask
from headrace.pool.executors.mujoco import comparison, lanes
from headrace.pool.executors.mujoco.fields import library, native_module

needs_lanes = pytest.mark.skipif(not native_module().lane_widths(), reason="nothing is stepped in lanes here")
pytestmark = needs_lanes

XML = """
<mujoco>
  <option timestep="0.005"/>
  <worldbody>
    <geom type="plane" size="3 3 1"/>
    <body pos="0 0 .3"><freejoint/><geom type="box" size=".1 .1 .1" mass="1"/></body>
    <body pos="1 0 .4"><joint name="swing" axis="0 1 0" range="-60 60" damping=".1"/>
      <geom type="capsule" size=".03" fromto="0 0 0 -.3 0 -.1" mass="2"/></body>
  </worldbody>
  <actuator><motor name="swing" joint="swing" gear="10" ctrlrange="-1 1"/></actuator>
  <sensor><e_kinetic name="energy"/></sensor>
</mujoco>"""
SPACE = gym.spaces.Box(-np.inf, np.inf, (8 + 7,), np.float64)
TASK = MujocoTask(GENERIC, XML, SPACE)


@pytest.fixture(autouse=True)
def _new(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Starts each test without a verdict on any model, in memory or in files."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(comparison, "_VERDICTS", {})
    headrace.register("Compared-v0", TASK, replace=True)


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes gravity 0.3 % stronger in MuJoCo's step than in lanes."""

    def heavier(model: Any, exact: Callable[[Any], Any] = comparison._to_the_end) -> Any:
        model = exact(model)
        model.opt.gravity[:] *= 1.003
        return model

    monkeypatch.setattr(comparison, "_to_the_end", heavier)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgets the verdicts in memory, as in a new process, which finds them in files."""
    monkeypatch.setattr(comparison, "_VERDICTS", {})


def test_a_model_that_agrees_is_compared_only_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert headrace.make_spec("Compared-v0").options["physics"] == "lanes"
    (kept,) = (tmp_path / "headrace" / "lanes").iterdir()
    forget(monkeypatch)
    monkeypatch.setattr(comparison, "Comparison", None)
    assert headrace.make_spec("Compared-v0").options["physics"] == "lanes"
    forget(monkeypatch)
    kept.write_text("{")  # a damaged file, as a full disk leaves it
    with pytest.raises(TypeError):
        headrace.make_spec("Compared-v0")


@pytest.mark.usefixtures("faulty")
def test_a_model_that_differs_is_stepped_by_libmujoco(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for line in (1, 0):  # the remark is printed once, when the difference is found
        assert headrace.make_spec("Compared-v0").options["physics"] == "mujoco"
        said = capsys.readouterr().err
        assert len(re.findall(r"Compared-v0 .*not .*lanes.* qvel differs .* by 0\.\d+ of", said)) == line, said
        forget(monkeypatch)
    assert main(["envs", "Compared-v0"]) == 0
    assert "physics mujoco, not lanes: qvel differs" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(OptionError, match=r"qvel differs from MuJoCo's step by 0\.\d+ .*leave physics out, or ask for"):
        headrace.make("Compared-v0", num_envs=2, physics="lanes")
    with headrace.make("Compared-v0", num_envs=2) as pool:
        assert pool.spec.options["physics"] == "mujoco"
    monkeypatch.setenv(comparison.UNCHECKED, "1")
    assert headrace.make_spec("Compared-v0", physics="lanes").options["physics"] == "lanes"


@pytest.mark.parametrize("reads", [("qpos", "qvel", "qacc"), ("qpos", "qvel", "cfrc_ext"), ("qpos", "qvel", "xpos")])
def test_every_field_that_a_task_reads_is_compared(reads: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    model, name = library().MjModel.from_xml_string(XML), reads[-1]
    both = comparison.Comparison(replace(GENERIC, reads=reads), model)
    assert both.run() == comparison.Verdict()
    right = both._in_lanes

    def wrong(states: Any) -> Any:  # by a thousandth
        return ({**each, name: each[name] * 1.001} for each in right(states) if each is not None)

    monkeypatch.setattr(both, "_in_lanes", wrong)
    assert both.run().differs == f"{name} differs from MuJoCo's step by 0.001 of its largest value"


def test_a_solver_that_stops_early_is_reported() -> None:
    model, rough = library().MjModel.from_xml_string(XML), library().MjModel.from_xml_string(XML)
    rough.opt.iterations = 1
    found = comparison.Comparison(GENERIC, model)
    found._model = rough  # MuJoCo's step uses this model's solver, while lanes compute the minimum
    assert re.fullmatch(r"the model's own 1 iterations end up to [\d.e-]+ of the velocities .*", found.run().stops)


def test_a_comparison_starts_from_the_same_states_every_time() -> None:
    model = library().MjModel.from_xml_string(XML)
    one, other = (list(comparison._states(model, library().mjtState.mjSTATE_INTEGRATION)) for _ in range(2))
    assert np.array_equal(one, other) and len(one) == comparison.TRAJECTORIES * len(comparison.SEEN_AT)


def test_headraces_own_robots_are_compared_only_with_a_changed_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(comparison, "Comparison", None)
    assert headrace.make_spec("Hopper-v5").options["physics"] == "lanes"
    gymnasiums = Path(gym.__file__).parent / "envs" / "mujoco" / "assets" / "hopper.xml"
    mine = tmp_path / "hopper.xml"
    mine.write_text(gymnasiums.read_text().replace('damping="1"', 'damping="1.5"'))
    with pytest.raises(TypeError):
        headrace.make_spec("Hopper-v5", xml_file=str(mine))


ARM = '''
import headrace, gymnasium, numpy
from mujoco_fuzz import exotic, model_of, shipped
from mujoco_generic import GENERIC
from headrace.mujoco import MujocoTask
from dataclasses import replace
SPACE = gymnasium.spaces.Box(-numpy.inf, numpy.inf, (15,), numpy.float64)
XML = """{xml}"""
headrace.register("Bent-v0", MujocoTask(replace(GENERIC, reads=("qpos", "qvel", "sensordata"), fresh=True), XML, SPACE))
headrace.register("Still-v0", MujocoTask(replace(GENERIC, reads=("qpos", "qvel", "qLD")), XML, SPACE))
'''


def test_headrace_envs_lists_the_physics_of_the_tasks_of_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    file = tmp_path / "compared_arm.py"
    file.write_text(ARM.format(xml=XML))
    assert main(["envs", str(file)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert ":Bent-v0: physics lanes; libmujoco computes sensor 0 'energy', one environment at a time" in said
    assert ":Still-v0: physics mujoco, not lanes: qLD is read" in said
    assert main(["envs", f"{file}:Still-v0"]) == 0
    said = capsys.readouterr().out
    assert "qLD is read" in said and "Bent-v0" not in said
    assert main(["envs", f"{file}:Other-v0"]) == 2


MANY = (
    "qpos",
    "qvel",
    "qacc",
    "xpos",
    "xquat",
    "ximat",
    "subtree_com",
    "cvel",
    "cinert",
    "cfrc_ext",
    "qfrc_constraint",
)
DEGENERATE = {"gymnasium/envs/mujoco/assets/point.xml", "dm_control/third_party/ant/ant.xml"}
"""models in which rounding decides: geoms are at a distance of exactly 0, or one ends at the centre of another"""


@pytest.mark.nightly
def test_shipped_and_exotic_models_agree_with_mujoco() -> None:
    compared = 0
    for name in {**shipped(), **exotic()}:
        model = model_of(name)
        env = replace(GENERIC, reads=(*MANY, "sensordata"), fresh=True)
        if model is not None and lanes._unsupported(env, model):
            env = replace(GENERIC, reads=("qpos", "qvel"))
        if model is None or lanes._unsupported(env, model):
            continue
        differs = comparison.Comparison(env, model).run().differs
        assert not differs or name in DEGENERATE, f"{name}: {differs}"
        compared += 1
    assert compared > 40


@pytest.mark.nightly
def test_several_processes_compare_the_same_model_at_once(tmp_path: Path) -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import test_mujoco_comparison as t, headrace"
    code += "; headrace.register('C-v0', t.TASK); print(headrace.make_spec('C-v0').options['physics'])"
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [each.communicate()[0].strip() for each in running] == ["lanes", "lanes"]
    assert [file.suffix for file in (tmp_path / "headrace" / "lanes").iterdir()] == [".json"]
