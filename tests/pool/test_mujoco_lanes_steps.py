"""Compares a step in lanes with `mj_step`, for small models that lanes once stepped wrongly or not at all."""

# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("mujoco")  # its library must be there first
pytest.importorskip("headrace_mujoco._mujoco", reason="MuJoCo, or the module compiled for it, is missing")

from mujoco_generic import GENERIC

import headrace
from headrace.errors import OptionError
from headrace.mujoco import MujocoTask
from headrace.pool.executors.mujoco.fields import native_module
from nightly import rest_nightly

mujoco: Any = pytest.importorskip("mujoco")
pytestmark = pytest.mark.skipif(not native_module().lane_widths(), reason="nothing is stepped in lanes here")

N = 12  # states; the first is at rest in the model's own pose
NEAR = 1e-12  # of velocities, by the largest
TO_THE_END = {"tolerance": 0, "iterations": 1000, "ls_iterations": 300, "ls_tolerance": 1e-10}
"""options with which MuJoCo's solver goes on to the minimum"""


@dataclass
class Steps:
    """Velocities [N, nv] after one step from equal states, warnings [N], and how many steps are exactly libmujoco's."""

    ours: np.ndarray
    theirs: np.ndarray
    we_warn: np.ndarray
    they_warn: np.ndarray
    equal: int

    @property
    def apart(self) -> float:
        return float(np.abs(self.ours - self.theirs).max() / max(1.0, np.abs(self.theirs).max()))


def model_of(world: str, *, option: str = "", more: str = "") -> Any:
    return mujoco.MjModel.from_xml_string(
        f'<mujoco><compiler angle="radian"/><option {option}/><worldbody>{world}</worldbody>{more}</mujoco>'
    )


def stepped(
    model: Any, *, physics: str = "lanes", spread: float = 1.0, options: dict[str, Any] | None = None, seed: int = 0
) -> Steps:
    """One step in lanes, and one of `mj_step`, where MuJoCo may have other ``options``."""
    rng = np.random.default_rng(seed)
    space = gym.spaces.Box(-np.inf, np.inf, (model.nq + model.nv,), np.float64)
    task = MujocoTask(GENERIC, lambda options: model, space, frame_skip=1, max_episode_steps=0)
    headrace.register("Stepped-v0", task, replace=True)
    qpos, qvel = np.tile(model.qpos0, (N, 1)), np.zeros((N, model.nv))
    actions = rng.normal(size=(N, model.nu))
    for row in range(1, N):
        mujoco.mj_integratePos(model, qpos[row], rng.normal(size=model.nv) * 0.3 * spread, 1.0)
        qvel[row] = rng.normal(size=model.nv) * 3 * spread
    with headrace.make("Stepped-v0", num_envs=N, num_threads=1, physics=physics, autoreset="disabled") as pool:
        pool.reset()
        state: Any = pool._executor.state_arrays()
        state["qpos"][:], state["qvel"][:] = qpos, qvel
        we_warn = pool.step(actions)[4]["physics_warning"].copy()
        ours = state["qvel"].copy()
    theirs, they_warn = np.empty_like(ours), np.zeros_like(we_warn)
    for name, value in (options or {}).items():
        setattr(model.opt, name, value)
    data = mujoco.MjData(model)
    for row in range(N):
        mujoco.mj_resetData(model, data)
        data.qpos[:], data.qvel[:], data.ctrl[:] = qpos[row], qvel[row], actions[row]
        mujoco.mj_step(model, data)
        theirs[row] = data.qvel
        they_warn[row] = next((kind + 1 for kind, warning in enumerate(data.warning) if warning.number), 0)
    return Steps(ours, theirs, we_warn, they_warn, int((ours == theirs).all(axis=1).sum()))


# -- servos at limits ----------------------------------------------------------------------------

ARM = """
  <body><joint name="a" axis="0 1 0" actuatorfrclimited="true" actuatorfrcrange="{range}"/>
    <geom type="capsule" size=".03" fromto="0 0 0 .3 0 0" contype="0"/>
    <body pos=".3 0 0"><joint name="b" axis="0 1 0" actuatorfrclimited="true" actuatorfrcrange="{range}"/>
      <geom type="capsule" size=".03" fromto="0 0 0 .3 0 0" contype="0"/></body></body>"""
SERVOS = {
    "position": '<position joint="a" kp="20" kv="3"/><position joint="b" kp="20" dampratio="1"/>',
    "several on a joint": '<position joint="a" kp="2" kv="3"/><velocity joint="a" kv="2"/><motor joint="b"/>',
    "geared": '<position joint="a" kp="2" kv="3" gear="-3"/>',
    "by a tendon": '<position tendon="t" kp="5" kv="3"/>',
    "by a tendon and a joint": '<position tendon="t" kp="5" kv="3"/><velocity joint="a" kv="1"/>',
    "with a state": '<intvelocity joint="a" kp="20" kv="3" actrange="-3 3"/>',
    "limited itself": '<position joint="a" kp="20" kv="3" forcerange="-.9 .9"/>',
    "gain by velocity": """<general joint="a" gaintype="affine" gainprm="1 0 2" biastype="affine" biasprm="0 0 -1"
        ctrlrange="-.3 .3"/>""",
}
TENDON = """<tendon><fixed name="t"><joint joint="a" coef="1"/><joint joint="b" coef="-.5"/></fixed></tendon>"""


@pytest.mark.parametrize("integrator", ["implicitfast", "Euler"])
@pytest.mark.parametrize("limit", rest_nightly(["-.8 .8", "0 2", "-50 50"], "-.8 .8"))
@pytest.mark.parametrize("servo", SERVOS)
def test_lanes_step_servos_at_force_limited_joints_as_mujoco(servo: str, limit: str, integrator: str) -> None:
    """Actuators whose force is clipped by their joint's limit add no damping; actuators of a tendon still do."""
    more = f"{TENDON}<actuator>{SERVOS[servo]}</actuator>"
    steps = stepped(model_of(ARM.format(range=limit), option=f'integrator="{integrator}"', more=more))
    assert steps.apart < NEAR


# -- free bodies under implicitfast --------------------------------------------------------------

BOX = '<geom type="box" size=".1 .05 .02" pos=".1 .02 .03" contype="0" conaffinity="0"/>'
BALL = '<geom size=".05" contype="0" conaffinity="0"/>'
FREE = {
    "alone": f"<freejoint/>{BOX}",
    "around its middle": '<freejoint/><geom type="box" size=".1 .05 .02" contype="0" conaffinity="0"/>',
    "a ball": f"<freejoint/>{BALL}",
    "around its middle, on a string": """<freejoint/><site name="s" pos=".1 0 0"/>
        <geom type="box" size=".1 .05 .02" contype="0" conaffinity="0"/>""",
    "damped": f'<joint type="free" damping=".5" armature=".1"/>{BOX}',
    "with a handle": f'<freejoint/>{BOX}<body pos=".2 0 .1">{BALL}</body>',
    "with a camera": f'<freejoint/>{BOX}<body pos=".2 0 .1"><camera/></body>',
    "with a hinge": f'<freejoint/>{BOX}<body pos=".2 0 .1"><joint/>{BALL}</body>',
    "on a string": f'<freejoint/>{BOX}<site name="s" pos=".1 0 0"/>',
}


@pytest.mark.parametrize("body", FREE)
def test_lanes_step_free_bodies_as_mujoco(body: str) -> None:
    """Free bodies without moving children have the derivative of gyroscopic forces."""
    string = '<tendon><spatial damping="3"><site site="w"/><site site="s"/></spatial></tendon>'
    world = f'<site name="w"/><body pos="0 0 1">{FREE[body]}</body><body pos="2 0 1">{FREE["a ball"]}</body>'
    model = model_of(world, option='integrator="implicitfast"', more=string if "string" in body else "")
    assert stepped(model, spread=3).apart < NEAR


def test_lanes_step_a_free_body_in_contact_as_mujoco() -> None:
    world = f"""<geom type="plane" size="2 2 1"/>
      <body pos="0 0 .09"><freejoint/><geom type="box" size=".1 .1 .1"/><body pos="0 0 .2">{BALL}</body></body>"""
    steps = stepped(model_of(world, option='integrator="implicitfast"'), options=TO_THE_END)
    assert steps.apart < 1e-9


# -- the solver's iterations ---------------------------------------------------------------------


ENDS = ['iterations="1" ls_iterations="1"', 'iterations="3"', 'tolerance="1" iterations="1"']


@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
@pytest.mark.parametrize("solver", ["Newton", "CG", "PGS"])
@pytest.mark.parametrize("ends", rest_nightly(ENDS, ENDS[0]))
def test_lanes_reach_the_minimum_for_any_solver_and_iterations_of_a_model(ends: str, solver: str, cone: str) -> None:
    world = """<geom type="plane" size="2 2 1"/>
      <body pos="0 0 .28"><freejoint/><geom type="box" size=".2 .1 .05"/>
        <body pos=".2 0 0"><joint name="a" axis="0 1 0" range="-.1 .1" limited="true" frictionloss=".3"/>
          <geom type="capsule" size=".04" fromto="0 0 0 .2 0 -.25"/></body></body>"""
    model = model_of(world, option=f'cone="{cone}" solver="{solver}" {ends}')
    steps = stepped(model, options=TO_THE_END | {"solver": mujoco.mjtSolver.mjSOL_NEWTON})
    assert steps.apart < 1e-8
    assert steps.equal <= N // 2  # at least half of the steps were computed by lanes, not by libmujoco


# -- feet of robots ------------------------------------------------------------------------------

LEG = """<body name="{name}" pos="{x} {y} 0"><joint axis="0 1 0" damping=".5" frictionloss=".1"/>
    <geom type="capsule" size=".02" fromto="0 0 0 {x} 0 -.15" condim="1"/>
    <body pos="{x} 0 -.15"><joint axis="0 1 0" armature=".005"/>
      <geom name="{name}" size=".03" pos="0 0 -.12" condim="{dim}" priority="1" friction="1 5e-3 5e-4"/>
    </body></body>"""
PAIR = '<pair geom1="{name}" geom2="floor" condim="{dim}" friction=".6 .8 5e-3 1e-3 2e-3" solreffriction=".03 1"/>'
LEGS = {"a": (0.1, 0.1), "b": (0.1, -0.1), "c": (-0.1, 0.1), "d": (-0.1, -0.1)}


@pytest.mark.parametrize("impratio", [1, 10])
@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
@pytest.mark.parametrize("dim", [1, 3, 4, 6])
def test_lanes_step_feet_of_any_contact_dimension_as_mujoco(dim: int, cone: str, impratio: float) -> None:
    """Two feet touch the floor by their own parameters, and two by those of a pair."""
    legs = "".join(LEG.format(name=name, x=x, y=y, dim=dim) for name, (x, y) in LEGS.items())
    world = f"""<geom name="floor" type="plane" size="5 5 1"/>
        <body pos="0 0 .27"><freejoint/><geom type="box" size=".15 .08 .05" condim="1"/>{legs}</body>"""
    pairs = "".join(PAIR.format(name=name, dim=dim) for name in "ab")
    option = f'integrator="implicitfast" cone="{cone}" impratio="{impratio}"'
    steps = stepped(model_of(world, option=option, more=f"<contact>{pairs}</contact>"), spread=0.2, options=TO_THE_END)
    assert steps.apart < 1e-9
    assert steps.equal < N // 2


# -- rough ground ----------------------------------------------------------------------------------

GROUND = '<asset><hfield name="rough" nrow="9" ncol="9" size=".5 .5 {high} .2" elevation="{heights}"/></asset>'
FEET = {
    "spheres": '<geom size=".05" contype="2" conaffinity="1"/>',
    "spheres with a margin": '<geom size=".05" margin=".02" contype="2" conaffinity="1"/>',
    "capsules": '<geom type="capsule" size=".04 .1" contype="2" conaffinity="1"/>',
    "boxes": '<geom type="box" size=".04 .06 .03" contype="2" conaffinity="1"/>',
}


@pytest.mark.parametrize("ground", ["hills", "cliffs", "terraces"])
@pytest.mark.parametrize("foot", FEET)
def test_lanes_step_feet_on_a_height_field_as_mujoco(foot: str, ground: str) -> None:
    """On and beside it, at its edges and inside, also where a sphere touches several of its triangles."""
    rng = np.random.default_rng(5)
    heights = rng.random(81)
    if ground == "terraces":
        heights = np.round(2 * heights) / 2
    high = 1.2 if ground == "cliffs" else 0.2
    asset = GROUND.format(high=high, heights=" ".join(f"{x:.4f}" for x in heights))
    places = "".join(
        f'<body pos="{x:.3f} {y:.3f} {z:.3f}"><freejoint/>{FEET[foot]}</body>'
        for x, y, z in rng.uniform((-0.5, -0.5, 0), (0.5, 0.5, high + 0.05), (6, 3))
    )
    world = f'<body euler=".1 .2 .3"><geom type="hfield" hfield="rough" contype="1" conaffinity="2"/></body>{places}'
    steps = stepped(model_of(world, more=asset), spread=0.3, options=TO_THE_END)
    assert steps.apart < 1e-8
    assert steps.equal < N


# -- contacts that depend on MuJoCo's rounding ---------------------------------------------------

TOUCHING = {
    "a sphere above the floor": '<geom {} size=".5"/>',
    "a capsule on end": '<geom {} type="capsule" size=".25 .25"/>',
    "a box": '<geom {} type="box" size=".5 .5 .5"/>',
    "a cylinder": '<geom {} type="cylinder" size=".5 .5"/>',
    "an ellipsoid": '<geom {} type="ellipsoid" size=".5 .4 .5"/>',
}


@pytest.mark.parametrize("margin", rest_nightly([0, 0.1, 0.3], 0.1))
@pytest.mark.parametrize("height", [0, 0.7])
@pytest.mark.parametrize("what", TOUCHING)
def test_lanes_detect_contacts_exactly_at_their_margin_as_mujoco(what: str, height: float, margin: float) -> None:
    geom = TOUCHING[what].format(f'margin="{margin}"')
    world = f"""<geom type="plane" size="5 5 1" pos="0 0 {height}"/>
        <body pos="0 0 {height + 0.5 + margin}"><freejoint/>{geom}</body>"""
    assert stepped(model_of(world), spread=0).apart < NEAR


def test_lanes_step_a_body_sliding_on_the_floor_as_mujoco() -> None:
    """As in Gymnasium's point, rounding of the quaternion decides whether the body touches the floor."""
    world = """<geom type="plane" size="5 5 1"/><body><joint type="slide" axis="1 0 0"/>
        <joint type="slide" axis="0 1 0"/><joint type="hinge"/><geom pos="0 0 .5" size=".5" density="100"/>
        <geom pos=".6 0 .5" type="box" size=".5 .1 .1"/></body>"""
    assert stepped(model_of(world, option='integrator="RK4" timestep="0.02"'), spread=10).apart < NEAR


@pytest.mark.parametrize("tilt", [1e-15, 1e-13, 1e-11])
def test_lanes_step_an_upright_cylinder_as_mujoco(tilt: float) -> None:
    """Rounding decides which point of its rim is the lowest."""
    world = """<geom type="plane" size="5 5 1"/>
        <body pos="0 0 .499"><freejoint/><geom type="cylinder" size=".3 .5" euler="0 0 .7"/></body>"""
    assert stepped(model_of(world), spread=tilt, options=TO_THE_END).apart < 1e-10


@pytest.mark.parametrize("angle", [1e-8, 1e-6, 9.9e-5, 1.01e-4, 1e-3])
def test_lanes_step_nearly_parallel_capsules_as_mujoco(angle: float) -> None:
    """MuJoCo takes them for parallel below 1e-4, and makes two contacts."""
    capsule = '<geom type="capsule" size=".1 .3" euler="{}"/>'
    world = f"""<body pos="0 0 1" euler=".3 .2 .1"><freejoint/>{capsule.format(".1 .2 .3")}
        <body pos=".15 .02 .03"><joint axis="1 2 3"/><geom size=".01"/></body></body>
        <body pos=".15 .03 1.01" euler=".3 .2 .1"><freejoint/>{capsule.format(f"{0.1 + angle} .2 .3")}</body>"""
    assert stepped(model_of(world), spread=angle / 1000, options=TO_THE_END).apart < 1e-8


def test_lanes_step_concentric_spheres_as_mujoco() -> None:
    """MuJoCo then uses a fixed normal instead of the direction that rounding would give."""
    slides = '<joint type="slide" axis="1 2 3"/><joint type="slide" axis="3 2 -1"/>'
    body = f"""<body pos="-13.2 -6.6 9.4" euler="1 -.6 1.8">
        <body name="b" pos=".5 20 1.9">{slides}<geom size=".2"/></body></body>"""
    model = model_of(body)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    middle = " ".join(repr(float(x)) for x in data.body("b").xpos)
    model = model_of(f'{body}<geom size=".1" pos="{middle}"/>')
    assert stepped(model, spread=0).apart < NEAR


@pytest.mark.parametrize("physics", ["lanes", "lanes32"])
@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
@pytest.mark.parametrize("armature", [0, 0.1])
def test_a_singular_inertia_gives_the_same_warning_as_mujoco(armature: float, integrator: str, physics: str) -> None:
    """Two slides along one axis make the inertia singular, unless an armature gives each an inertia of its own."""
    slide = f'<joint type="slide" axis="1 .3 .2" armature="{armature}"/>'
    world = f'<body><joint axis="1 2 3"/>{BOX}<body pos=".3 .2 .1">{slide}{slide}{BOX}</body></body>'
    steps = stepped(model_of(world, option=f'integrator="{integrator}"'), physics=physics)
    assert steps.we_warn.tolist() == steps.they_warn.tolist()
    assert steps.they_warn.any() == (armature == 0)


# -- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize("integrator", ["implicit", "discrete"])
def test_lanes_refuse_the_integrators_implicit_and_discrete(integrator: str) -> None:
    model = model_of(f"<body><joint damping='1'/>{BOX}</body>", option=f'integrator="{integrator}"')
    with pytest.raises(OptionError, match=f"the integrator is {integrator}"):
        stepped(model)
