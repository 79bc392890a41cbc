"""Pools of whatever models there are, under states and actions that nobody would choose.

Run in a process of its own, so that a crash is seen and shows whose it was: `python mujoco_fuzz.py SEED MODEL…`
prints each model's name before it plays with it, and what came out behind it.
"""

# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np

import headrace
from headrace.errors import ActionError, EnvironmentFailure, HeadraceError, RenderError
from headrace.mujoco import MujocoTask
from headrace.pool.spec import AutoresetMode

PACKAGES = ("mujoco", "gymnasium", "dm_control")
HUGE = (1e10, 1e30, 1e300, sys.float_info.max, -sys.float_info.max, 5e-324)
NO_NUMBERS = (np.nan, np.inf, -np.inf)
N, SPOILT, STEPS = 4, 2, 12  # environments, those that are spoilt, steps
PICTURED, SIDE = 0.2, 16  # how often they are drawn, and how large
SIZE: dict[str, Any] = {"render_width": SIDE, "render_height": SIDE}


def shipped() -> dict[str, Path]:
    """Every XML file that comes with MuJoCo, Gymnasium and dm_control, by its name in its package."""
    found = {}
    for package in PACKAGES:
        spec = find_spec(package)
        for root in spec.submodule_search_locations or [] if spec else []:
            found |= {f"{package}/{p.relative_to(root)}": p for p in sorted(Path(root).rglob("*.xml"))}
    return found


def exotic() -> dict[str, str]:
    """Models with parts that shipped ones lack, by a name."""
    body = '<body pos="0 0 .3"><freejoint/><geom size=".1" mass="1"/></body>'
    hinge = '<body pos="1 0 1"><joint name="j"/><geom size=".1" pos=".2 0 0" mass="1"/></body>'
    plane = '<geom type="plane" size="2 2 .1"/>'
    return {
        "empty": "<mujoco/>",
        "no actuators": f"<mujoco><worldbody>{plane}{body}</worldbody></mujoco>",
        "no joints": '<mujoco><worldbody><geom size=".1"/></worldbody></mujoco>',
        "mocap and weld": f"""<mujoco><worldbody>{plane}
            <body name="hand" mocap="true" pos="0 0 1"><geom size=".05"/></body>
            <body name="box" pos="0 0 1"><freejoint/><geom size=".1" mass="1"/></body></worldbody>
            <equality><weld body1="hand" body2="box"/></equality></mujoco>""",
        "user data": f'<mujoco><size nuserdata="7"/><worldbody>{plane}{body}</worldbody></mujoco>',
        "history": f"""<mujoco><worldbody>{hinge}</worldbody>
            <actuator><motor joint="j" delay=".01" nsample="6"/></actuator>
            <sensor><jointpos joint="j" delay=".006" nsample="4"/></sensor></mujoco>""",
        "activations": f"""<mujoco><worldbody>{hinge}</worldbody><actuator>
            <general joint="j" dyntype="integrator" actlimited="true" actrange="-1 1"/>
            <general joint="j" dyntype="filterexact" dynprm=".1"/>
            <muscle joint="j" lengthrange="0 1"/></actuator></mujoco>""",
        "flex": """<mujoco><option solver="CG" tolerance="1e-6" timestep=".001"/><worldbody>
            <geom type="plane" size="2 2 .1"/>
            <flexcomp name="cloth" type="grid" count="4 4 1" spacing=".1 .1 .1" pos="0 0 .3" mass=".2" radius=".01"
            dim="2"><edge equality="true"/></flexcomp></worldbody></mujoco>""",
        "sleep": f'<mujoco><option><flag sleep="enable"/></option><worldbody>{plane}{body}</worldbody></mujoco>',
        "own contact memory": f"""<mujoco><option integrator="discrete"><flag ipc="enable"/></option>
            <worldbody>{plane}{body}</worldbody></mujoco>""",
        "touch grid plugin": f"""<mujoco><extension><plugin plugin="mujoco.sensor.touch_grid"/></extension>
            <worldbody>{plane}
            <body pos="0 0 .2"><freejoint/><geom size=".1" mass="1"/><site name="s"/></body></worldbody><sensor>
            <plugin plugin="mujoco.sensor.touch_grid" objtype="site" objname="s"><config key="size" value="3 3"/>
            <config key="fov" value="30 30"/><config key="gamma" value="0"/><config key="nchannel" value="3"/>
            </plugin></sensor></mujoco>""",
        "pid plugin": f"""<mujoco><extension><plugin plugin="mujoco.pid"><instance name="pid">
            <config key="kp" value="40"/><config key="ki" value="40"/><config key="kd" value="4"/>
            <config key="imax" value="20"/></instance></plugin></extension><worldbody>{hinge}</worldbody>
            <actuator><plugin joint="j" plugin="mujoco.pid" instance="pid" actdim="1" ctrlrange="-1 1"/></actuator>
            </mujoco>""",
        "sdf plugin": """<mujoco><extension><plugin plugin="mujoco.sdf.torus"><instance name="t">
            <config key="radius1" value=".3"/><config key="radius2" value=".1"/></instance></plugin></extension>
            <asset><mesh name="t"><plugin instance="t"/></mesh></asset>
            <worldbody><geom type="plane" size="2 2 .1"/><body pos="0 0 .5"><freejoint/>
            <geom type="sdf" mesh="t" mass="1"><plugin instance="t"/></geom></body></worldbody></mujoco>""",
        "little memory": f"""<mujoco><size memory="20K"/><worldbody>{plane}
            <replicate count="20" offset="0 0 .15"><body><freejoint/><geom type="box" size=".2 .2 .1" mass="1"/></body>
            </replicate></worldbody></mujoco>""",
        "long steps": f'<mujoco><option timestep="50"/><worldbody>{plane}{hinge}</worldbody></mujoco>',
        "no automatic reset": f"""<mujoco><option><flag autoreset="disable"/></option><worldbody>{plane}{hinge}{body}
            </worldbody><actuator><motor joint="j"/></actuator></mujoco>""",
        "implicit, elliptic": f"""<mujoco>
            <option integrator="implicit" cone="elliptic" noslip_iterations="3" impratio="10"/>
            <worldbody>{plane}{hinge}{body}</worldbody><actuator><motor joint="j" gear="1000"/></actuator></mujoco>""",
        "Runge-Kutta, PGS": f"""<mujoco><option integrator="RK4" solver="PGS" jacobian="sparse"/>
            <worldbody>{plane}{hinge}{body}</worldbody></mujoco>""",
    }


def model_of(name: str) -> mujoco.MjModel | None:
    """The model, or None where the file is no model of its own."""
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        source = exotic().get(name)
        return mujoco.MjModel.from_xml_string(source) if source else mujoco.MjModel.from_xml_path(str(shipped()[name]))
    except ValueError:
        return None


def task_over(model: mujoco.MjModel) -> MujocoTask:
    """The state is what is seen, and nothing is wanted."""
    from mujoco_generic import GENERIC

    space = gym.spaces.Box(-np.inf, np.inf, (model.nq + model.nv,), np.float64)
    return MujocoTask(GENERIC, lambda options: model, space, frame_skip=2, max_episode_steps=7)


def spoil(pool: headrace.Pool, rng: np.random.Generator) -> None:
    """Write numbers that no simulation has into parts of the first environments' state."""
    for rows in pool._executor.state_arrays().values():
        if rows.dtype == np.float64 and rows.size and rng.random() < 0.3:
            at = rng.integers(SPOILT), *(rng.integers(size) for size in rows.shape[1:])
            rows[at] = rng.choice([*NO_NUMBERS, *HUGE, *rng.normal(size=4)])


def actions_of(pool: headrace.Pool, rng: np.random.Generator) -> np.ndarray:
    """Within the bounds, beyond them, or far beyond them."""
    with np.errstate(over="ignore"):
        scale = rng.choice([1.0, 1.0, 1.0, 100.0, 1e8])  # nearly as far as actions may reach
        drawn = rng.uniform(-1, 1, (N, *(pool.action_space.shape or ()))) * scale
    return np.nan_to_num(drawn)


def refuses(pool: headrace.Pool, actions: np.ndarray, rng: np.random.Generator) -> bool:
    """Whether actions with one number that is none are an error, and nothing happens."""
    if not actions.size:
        return True
    actions = actions.copy()
    actions.flat[rng.integers(actions.size)] = rng.choice(NO_NUMBERS)
    try:
        pool.step(actions)
    except ActionError:
        return True
    return False


class Side:
    """A pool, and what became of its environments."""

    def __init__(self, autoreset: AutoresetMode):
        self.pool = headrace.make("Fuzzed-v0", num_envs=N, num_threads=1, seed=1, autoreset=autoreset, **SIZE)
        self.ends = self.failures = 0
        self.seen: list[np.ndarray] = []

    def step(self, actions: np.ndarray) -> None:
        """Advance all environments, and begin anew where an episode ended or the simulator raised."""
        try:
            obs, reward, terminated, truncated, info = self.pool.step(actions)
        except EnvironmentFailure:
            self.failures += 1
            self.seen = []
            return
        over = terminated | truncated
        assert np.isfinite(reward).all()
        assert terminated[info["physics_warning"] > 0].all()
        self.seen = [array[SPOILT:].copy() for array in (obs, reward, over, info["physics_warning"])]
        self.ends += int(over.sum())
        if self.pool.autoreset == "disabled" and over.any():
            self.pool.reset(np.flatnonzero(over))


def picture(pool: headrace.Pool, rng: np.random.Generator) -> str:
    """Draw a spoilt state, sometimes: OpenGL takes its time."""
    if rng.random() > PICTURED:
        return "not drawn"
    pool.reset()
    spoil(pool, rng)
    try:
        assert pool.render(range(SPOILT)).shape == (SPOILT, SIDE, SIDE, 3)
    except RenderError:
        return "no OpenGL"
    return "drawn"


def play(model: mujoco.MjModel, rng: np.random.Generator) -> str:
    """A pool with spoilt environments beside one without: the others must not notice. Says what became of it."""
    headrace.register("Fuzzed-v0", task_over(model), replace=True)
    modes: tuple[AutoresetMode, ...] = ("next_step", "same_step", "disabled")
    autoreset = modes[rng.integers(3)]
    try:
        sides = spoilt, sound = Side(autoreset), Side(autoreset)
        for side in sides:
            side.pool.reset()
    except HeadraceError as error:
        return f"{type(error).__name__}: {error}".replace("\n", " ")
    for _ in range(STEPS):
        if rng.random() < 0.7:
            spoil(spoilt.pool, rng)
        actions = actions_of(spoilt.pool, rng)
        for side in sides:
            side.step(actions)
        if spoilt.seen and sound.seen:
            for one, other in zip(spoilt.seen, sound.seen, strict=True):
                assert np.array_equal(one, other, equal_nan=True), "an environment noticed what befell another"
        else:
            for side in sides:
                side.pool.reset(seed=2)
        assert refuses(spoilt.pool, actions, rng), "a number that is none was accepted"
        if rng.random() < 0.2:
            spoilt.pool.load_state(None, spoilt.pool.save_state())
    drawn = picture(spoilt.pool, rng)
    for side in sides:
        side.pool.close()
    return f"{spoilt.ends} episodes ended, {spoilt.failures} failed, {drawn}"


def main() -> None:
    seed, *names = sys.argv[1:]
    for name in names:
        rng = np.random.default_rng([int(seed), sum(map(ord, name))])
        print(name, end=": ", flush=True)
        model = model_of(name)
        print("no model" if model is None else play(model, rng), flush=True)


if __name__ == "__main__":
    main()
