"""Every field of mjData and every kind of sensor that a task may read has the same values in lanes as in libmujoco."""

# ruff: noqa: E501
# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import warp as wp

import headrace
from headrace.mujoco import MujocoEnv, MujocoTask, Streams, uniform
from headrace.pool.executors.mujoco.fields import library, native_module
from headrace.pool.executors.mujoco.program import FORCES

needs_lanes = pytest.mark.skipif(not native_module().lane_widths(), reason="nothing is stepped in lanes here")

# a base that stands still and carries an arm, a body that falls on another, one that a mocap body leads, and all kinds of
# sensors that a user's model may have
BODIES = """
<worldbody>
  <light name="lamp" pos="0 0 3"/> <camera name="eye" pos="1 -2 1" xyaxes="1 0 0 0 0 1"/>
  <geom name="floor" type="plane" size="3 3 .1"/> <site name="origin" pos=".1 .2 .3"/>
  <body name="base" pos=".4 .3 .2" euler="0 0 30">
    <geom name="base" type="box" size=".1 .08 .06" pos=".01 0 0" mass="3"/> <site name="foot" pos="0 .02 -.05"/>
    <body name="post" pos="0 0 .1"> <geom type="cylinder" size=".03 .05" mass="1"/> <site name="post" pos=".01 0 0"/>
      <body name="upper" pos="0 0 .1">
        <joint name="shoulder" axis="0 1 0" damping=".3" range="-40 40" limited="true"/>
        <geom type="capsule" size=".03" fromto="0 0 0 .3 0 0" mass=".7"/> <site name="elbow" pos=".3 0 0" size=".05"/>
        <body name="lower" pos=".3 0 0" euler="10 0 0">
          <joint name="elbow" axis="0 1 0" damping=".2" range="-60 60" limited="true" actuatorfrclimited="true" actuatorfrcrange="-2 2"/>
          <geom name="lower" type="capsule" size=".025" fromto="0 0 0 .25 0 0" mass=".4"/>
          <camera name="hand" pos=".25 0 0"/> <site name="hand" pos=".25 0 .01" size=".05"/>
          <body name="tool" pos=".25 0 0"> <joint name="slide" type="slide" axis="1 0 0" range="-.05 .05" limited="true" damping="1"/>
            <geom size=".03" mass=".1"/> </body>
        </body>
      </body>
    </body>
  </body>
  <body name="table" pos="-.5 0 .1"> <geom name="table" type="box" size=".3 .3 .1" mass="8"/> </body>
  <body name="cube" pos="-.5 .02 .249"> <freejoint name="cube"/> <geom name="cube" type="box" size=".05 .05 .05" mass=".3"/>
    <site name="pad" type="box" size=".06 .06 .07"/>
    <body name="handle" pos="0 0 .06"> <geom name="handle" size=".01" mass=".02"/> <site name="handle" pos="0 0 .01"/> </body> </body>
  <body name="ball" pos="-.4 .05 .5"> <joint name="ball" type="ball" pos="0 0 .1" range="0 50" limited="true" damping=".05"/>
    <geom name="ball" size=".06" mass=".2"/> <site name="bob" pos="0 .02 0"/> </body>
  <body name="lead" mocap="true" pos="1 1 1"> <site name="lead"/> <geom size=".02" contype="0" conaffinity="0"/> </body>
  <body name="led" pos="1 1 .9"> <freejoint/> <geom name="led" size=".04" mass=".1"/> </body>
</worldbody>
<equality> <weld body1="lead" body2="led"/> </equality>
<tendon> <fixed name="both" limited="true" range="-.3 .3" stiffness="2"> <joint joint="shoulder" coef="1"/> <joint joint="elbow" coef=".5"/> </fixed> </tendon>
<actuator>
  <motor name="turn" joint="shoulder" gear="3" ctrlrange="-1 1"/> <position name="hold" joint="elbow" kp="20" kv="1"/>
  <motor name="pull" tendon="both" gear="2" ctrlrange="-1 1"/>
  <general name="slow" joint="slide" dyntype="filter" dynprm=".05" gainprm="4"/>
</actuator>"""
STEADY = BODIES.replace("<freejoint", '<joint type="slide"').replace('"-2 2"', '"-99 99"')
FRAMES = (
    ("site", "hand"),
    ("body", "lower"),
    ("xbody", "base"),
    ("geom", "cube"),
    ("camera", "hand"),
    ("site", "origin"),
)
"""objects that have a frame; each sees the next one, too"""


def frame_sensors(*kinds: str, ref: bool = True) -> str:
    """Sensors of these kinds of every object, and as another object sees it."""
    every = [(kind, at) for kind in kinds for at in range(len(FRAMES))]
    alone = [f'<{kind} objtype="{FRAMES[at][0]}" objname="{FRAMES[at][1]}"' for kind, at in every]
    seen = [' reftype="{}" refname="{}"/>'.format(*FRAMES[(at + 1) % len(FRAMES)]) for _, at in every]
    return " ".join([*(each + "/>" for each in alone), *(map(str.__add__, alone, seen) if ref else ())])


SENSORS = {
    "state": """<jointpos joint="elbow"/> <jointvel joint="elbow"/> <ballquat joint="ball"/> <ballangvel joint="ball"/> <tendonpos tendon="both"/>
        <tendonvel tendon="both"/> <clock/> <magnetometer site="hand"/> <velocimeter site="hand"/> <gyro site="hand"/> <velocimeter site="origin"/>
        <gyro site="lead"/> <subtreecom body="world"/> <subtreecom body="base"/> <subtreecom body="cube"/> <subtreelinvel body="world"/>
        <subtreelinvel body="base"/> <subtreeangmom body="world"/> <subtreeangmom body="lower"/> <subtreeangmom body="base"/>
        <actuatorpos actuator="hold"/> <actuatorvel actuator="pull"/> <actuatorvel actuator="turn"/> <jointlimitpos joint="elbow"/>
        <jointlimitvel joint="shoulder"/> <jointlimitpos joint="ball"/> <jointlimitvel joint="ball"/> <tendonlimitpos tendon="both"/>
        <tendonlimitvel tendon="both"/>""",
    "frame": frame_sensors("framepos", "framequat", "framexaxis", "frameyaxis", "framezaxis", "framelinvel", "frameangvel"),
    "clipped": """<framepos objtype="site" objname="hand" cutoff=".2" noise="3"/> <gyro site="hand" cutoff=".3"/>
        <accelerometer site="hand" cutoff="9"/> <touch site="pad" cutoff=".5"/> <actuatorfrc actuator="hold" cutoff=".3"/> <contact geom1="cube" data="found force" cutoff=".01"/>""",
    "contact": " ".join(
        f"<contact {what} {how}/>"
        for what in ('geom1="cube"', 'geom2="cube"', 'geom1="cube" geom2="table"', 'geom1="table" geom2="cube"', 'body1="cube"', 'subtree1="base"', "")
        for how in ('data="found"', 'data="found" num="5"', 'data="found dist pos normal tangent" num="6"', 'data="dist" num="3" reduce="mindist"')
    ),
    "force": """<touch site="pad"/> <touch site="hand"/> <accelerometer site="hand"/> <accelerometer site="foot"/> <accelerometer site="origin"/>
        <accelerometer site="lead"/> <force site="elbow"/> <torque site="elbow"/> <force site="post"/> <torque site="foot"/> <force site="pad"/>
        <torque site="handle"/> <force site="origin"/> <torque site="origin"/> <actuatorfrc actuator="hold"/> <jointactuatorfrc joint="elbow"/>
        <tendonactuatorfrc tendon="both"/> <jointlimitfrc joint="elbow"/> <jointlimitfrc joint="ball"/> <tendonlimitfrc tendon="both"/>"""
    + frame_sensors("framelinacc", "frameangacc", ref=False),
    "contact force": " ".join(
        f"<contact {what} {how}/>"
        for what in ('geom1="cube"', 'geom1="table" geom2="cube"', 'body2="cube"', 'subtree2="base"', "")
        for how in ('data="force" num="2"', 'data="found force torque normal" num="4"', 'data="force" reduce="maxforce" num="9"',
                    'data="found" num="2" reduce="maxforce"', 'data="found force torque dist pos normal tangent" reduce="netforce"')
    ),
    "left": """<camprojection site="hand" camera="eye"/> <rangefinder site="handle"/> <insidesite objtype="geom" objname="handle" site="pad"/>
        <distance geom1="lower" geom2="table" cutoff="2"/> <normal geom1="lower" geom2="table" cutoff="2"/> <fromto geom1="lower" geom2="cube" cutoff="2"/>
        <user name="own" dim="2" needstage="pos"/> <e_potential/> <e_kinetic/> <contact site="pad" data="found"/>""",
}  # fmt: skip
LATER = ("state", "frame", "contact")
"""kinds that with `fresh` are the new state's, and that lanes compute"""
N = 4  # simulations; all but the first are in lanes that were never reset
KINDS = tuple(SENSORS)


def model_of(*kinds: str, option: str = "", bodies: str = BODIES) -> Any:
    sensors = " ".join(SENSORS[kind] for kind in kinds)
    return library().MjModel.from_xml_string(f"<mujoco>{option}{bodies}<sensor>{sensors}</sensor></mujoco>")


def data_fields() -> list[str]:
    """Names of all arrays of mjData, and of what a task may read beside them."""
    data = library().MjData(model_of())
    names = [n for n in dir(data) if not n.startswith(("_", "efc_")) and isinstance(getattr(data, n), np.ndarray)]
    return [*names, "time", "ncon"]


def starts(model: Any, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Returns random states of simulations [n, …], some with contacts, at limits and in motion, and their controls."""
    mujoco, rng = library(), np.random.default_rng(seed)
    data, rows = mujoco.MjData(model), []
    for _ in range(n):
        mujoco.mj_resetData(model, data)
        data.qvel[:] = rng.normal(0, 0.5, model.nv)
        mujoco.mj_integratePos(model, data.qpos, rng.normal(0, 0.5, model.nv), float(rng.random() < 0.4))
        for _ in range(int(rng.integers(0, 60))):
            data.ctrl[:] = rng.uniform(-1, 1, model.nu)
            mujoco.mj_step(model, data)
        data.mocap_pos[:] += rng.normal(0, 0.02, data.mocap_pos.shape)
        rows.append(state_of(model, data))
    return np.stack(rows), rng.uniform(-1, 1, (n, model.nu))


def state_of(model: Any, data: Any) -> np.ndarray:
    mujoco = library()
    row = np.empty(mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_getState(model, data, row, mujoco.mjtState.mjSTATE_INTEGRATION)
    return row


def to_the_end(model: Any) -> Any:
    """Returns a copy of the model whose constraint solver runs until it converges."""
    model = copy.copy(model)
    model.opt.solver, model.opt.tolerance, model.opt.iterations = library().mjtSolver.mjSOL_NEWTON, 0, 100
    model.opt.ls_iterations, model.opt.ls_tolerance = 50, 1e-10
    return model


def check(model: Any, reads: tuple[str, ...], fresh: bool, steps: int = 3, begin: Any = None, **varies: Any) -> None:
    """Compares what is read of simulations in lanes with libmujoco's, after one agent step and several.

    Args:
        model: the model.
        reads, fresh: as a task has them.
        steps: agent steps.
        begin: `starts` of N simulations.
        varies: name → [N, …], the values of fields of the model that differ between simulations.
    """
    mujoco, kind = library(), library().mjtState.mjSTATE_INTEGRATION
    wanted = {"kinematics": fresh, "forces": any(name in FORCES for name in reads), "sensors": []}
    trial = native_module().Trial(model=model._address, reads=[*reads, *varies], varies=list(varies), **wanted)
    n = min(trial.width, N)
    states, controls = begin or starts(model, n)
    models = [copy.copy(model) for _ in range(n)]
    for name, values in varies.items():
        for own, value in zip(models, values, strict=True):
            getattr(own, name)[:] = value
    exact, datas = [to_the_end(own) for own in models], [mujoco.MjData(own) for own in models]
    for data, state in zip(datas, states, strict=True):
        mujoco.mj_setState(model, data, state, kind)
    for _ in range(steps):
        states = [state_of(model, data) for data in datas]
        for data, control in zip(datas, controls, strict=True):
            data.ctrl[:] = control
        own = [each._address for each in models] if varies else []
        assert trial.in_lanes([data._address for data in datas], 2, own) == 0
        for i, ours in enumerate(datas):
            theirs = mujoco.MjData(exact[i])
            mujoco.mj_setState(exact[i], theirs, states[i], kind)
            theirs.ctrl[:] = controls[i]
            trial.by_mujoco(exact[i]._address, theirs._address, 2)
            for name in ("qpos", "qvel", "act", *reads):
                one, other = np.asarray(getattr(ours, name)), np.asarray(getattr(theirs, name))
                near = 1e-7 * (1 + np.abs(other).max(initial=0))
                np.testing.assert_allclose(one, other, rtol=0, atol=near, err_msg=f"{name} of simulation {i}")


def left(model: Any, reads: tuple[str, ...] = ("sensordata",)) -> list[str]:
    """What of a fresh state libmujoco computes."""
    return native_module().left_to_mujoco(
        model=model._address, reads=list(reads), kinematics=True, forces=True, sensors=[]
    )


def why_not(model: Any, reads: tuple[str, ...], fresh: bool) -> str:
    return native_module().why_not_in_lanes(
        model=model._address, reads=list(reads), varies=[], kinematics=fresh, forces=True, sensors=[]
    )


@needs_lanes
@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
@pytest.mark.parametrize("fresh", [False, True])
def test_every_field_of_mjdata_agrees_with_mujoco_or_is_refused(fresh: bool, integrator: str) -> None:
    bodies = STEADY if integrator == "implicitfast" else BODIES
    model = model_of("state", "frame", "force", option=f'<option integrator="{integrator}"/>', bodies=bodies)
    accepted = [name for name in data_fields() if not why_not(model, (name,), fresh)]
    assert {"xquat", "ximat", "subtree_com", "ten_velocity", "cinert", "ncon", "sensordata", *FORCES} <= set(accepted)
    assert {"actuator_length", "actuator_velocity", "qfrc_bias", "qfrc_passive"} <= set(accepted)
    assert ({"xanchor", "M"} <= set(accepted)) == fresh
    refused = set(data_fields()) - set(accepted)
    assert all(f"{name} is read" in why_not(model, (name,), fresh) for name in refused)
    begin = starts(model, N)
    for name in accepted:
        check(model, (name,), fresh, 1, begin)
    check(model, tuple(accepted), fresh, 3, begin)


@needs_lanes
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("more", ["", "xpos ncon ten_velocity cfrc_ext"])
def test_every_kind_of_sensor_agrees_with_mujoco(kind: str, more: str) -> None:
    check(model_of(kind), ("sensordata", *more.split()), True)


@needs_lanes
@pytest.mark.parametrize("integrator", ["Euler", "RK4"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "left"])
def test_every_kind_of_sensor_of_the_last_substep_agrees_with_mujoco(kind: str, integrator: str) -> None:
    check(model_of(kind, option=f'<option integrator="{integrator}"/>'), ("sensordata",), False)


@needs_lanes
def test_sensors_that_lanes_do_not_compute_are_named() -> None:
    computed = model_of(*(kind for kind in KINDS if kind != "left"))
    assert left(computed) == []
    model = model_of("left", *LATER)
    names = [f"sensor {i}" + (" 'own'" if model.sensor(i).name else "") for i in range(10)]
    assert left(model) == names
    assert why_not(model, ("sensordata",), False) == "sensor 0: its kind"
    gap = computed.geom_gap.copy()
    computed.geom_gap[1] = 0.1  # MuJoCo shows contacts that are not near enough to push
    assert why_not(computed, ("sensordata",), False).endswith("its kind")
    assert len(left(computed)) == sum("dist" in each or "found" in each for each in SENSORS["contact"].split("/>"))
    computed.geom_gap[:] = gap


@needs_lanes
def test_sensors_of_all_kinds_together_agree_with_mujoco() -> None:
    computed = [kind for kind in KINDS if kind != "left"]
    reads = ("sensordata", "cfrc_ext", "cacc", "ten_velocity", "ncon", "qfrc_passive", "qfrc_bias", "actuator_length")
    for kinds, fresh in ((KINDS, True), (computed, True), (computed, False)):
        check(model_of(*kinds), reads, fresh)
    disabled = '<option><flag sensor="disable"/></option>'
    check(model_of(*KINDS, option=disabled), ("sensordata", "xpos"), True)


SHELF = """
<mujoco>
  <worldbody>
    <body pos=".2 0 .1"><geom type="box" size=".2 .2 .1"/><body pos=".3 0 .3"><geom size=".1"/></body></body>
    <body pos=".2 .1 .245"><freejoint/><geom size=".05"/></body>
  </worldbody>
</mujoco>"""


@needs_lanes
def test_forces_on_fixed_bodies_agree_with_mujoco() -> None:
    """They refer to the centre of mass of all bodies that are welded together."""
    check(library().MjModel.from_xml_string(SHELF), ("cfrc_ext",), False)
    bodies = '<site name="here" pos="0 0 1"/><body pos=".2 0 .3"><joint axis="0 1 0"/><geom size=".1" mass="1"/></body>'
    sensors = '<force site="here"/><torque site="here"/><accelerometer site="here"/>'
    xml = f"<mujoco><worldbody>{bodies}</worldbody><sensor>{sensors}</sensor></mujoco>"
    check(library().MjModel.from_xml_string(xml), ("sensordata",), False)


@needs_lanes
def test_a_sensor_changes_no_step() -> None:
    """A box that stands has four contacts as near and as strong as each other."""
    box = '<geom type="plane" size="2 2 1"/><body pos="0 0 .099"><freejoint/><geom type="box" size=".1 .1 .1"/></body>'
    model = library().MjModel.from_xml_string(f"""<mujoco><option iterations="1"/><worldbody>{box}</worldbody><sensor>
        <contact data="force pos" reduce="maxforce"/><contact data="pos" reduce="mindist"/></sensor></mujoco>""")
    after = []
    for reads, fresh in ((["qpos"], False), (["sensordata"], False), (["sensordata"], True)):
        trial = native_module().Trial(
            model=model._address, reads=reads, varies=[], kinematics=fresh, forces=False, sensors=[]
        )
        data = library().MjData(model)
        assert trial.in_lanes([data._address], 20) == 0
        after.append(state_of(model, data))
    assert np.array_equal(after[0], after[1]) and np.array_equal(after[0], after[2])


@needs_lanes
def test_ncon_is_refused_for_a_contact_pair_within_one_body() -> None:
    body = '<body><joint/><geom name="a" size=".1" mass="1"/><geom name="b" size=".1" pos=".1 0 0"/></body>'
    pair = '<contact><pair name="ab" geom1="a" geom2="b"/></contact>'
    model = library().MjModel.from_xml_string(f"<mujoco><worldbody>{body}</worldbody>{pair}</mujoco>")
    assert why_not(model, ("ncon",), False).startswith("ncon is read, and pair 0 'ab'")
    check(model, ("xpos", "qfrc_constraint"), False)


@needs_lanes
@pytest.mark.parametrize("fresh", [False, True])
def test_fields_varied_between_environments_agree_with_mujoco(fresh: bool) -> None:
    """As in MuJoCo, sites at the origin of their body stay there, and a moved body takes all its children with it."""
    model, rng = model_of("state", "frame", "force"), np.random.default_rng(3)
    reads = ("xpos", "xipos", "xquat", "ximat", "subtree_com", "cinert", "site_xpos", "geom_xpos", "cvel")
    moved = {
        name: getattr(model, name) + rng.normal(0, 0.03, (N, *getattr(model, name).shape))
        for name in ("site_pos", "body_pos", "cam_pos")
    }
    untouched = model.geom_contype == 0
    moved["geom_pos"] = model.geom_pos + rng.normal(0, 0.03, (N, *model.geom_pos.shape)) * untouched[:, None]
    for varies in ({}, *({name: values} for name, values in moved.items()), moved):
        check(model, (*reads, "sensordata"), fresh, **varies)


XML = """
<mujoco>
  <worldbody>
    <geom type="plane" size="3 3 1"/>
    <body name="table" pos="1 0 .1" euler="0 0 20"><geom type="box" size=".2 .2 .1" mass="5"/></body>
    <body name="base" pos="0 0 .3"><geom size=".1" mass="2"/>
      <body pos="0 0 .1"><joint axis="0 1 0" damping=".1"/><geom type="capsule" size=".03" fromto="0 0 0 .3 0 0" mass="1"/></body></body>
    <body name="ball" pos="1 0 .26"><freejoint/><geom name="ball" size=".05" mass=".2"/></body>
  </worldbody>
  <sensor><contact geom1="ball" data="found" num="1"/><subtreecom body="world"/><e_kinetic/></sensor>
</mujoco>"""
ROWS = ("xpos", "xipos", "subtree_com", "xmat", "ximat", "xquat")
ROW = 5 * 3 * 3 + 5 * 2 * 9 + 5 * 4  # numbers of these fields, of five bodies


@wp.struct
class State:
    nbody: int
    nsensordata: int


@wp.struct
class View:
    obs: wp.array2d[wp.float64]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    physics.qvel[env, 0] = uniform(streams, env, wp.float64(-1.0), wp.float64(1.0))


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    return wp.float32(0.0), wp.bool(False)


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    at = int(0)
    for b in range(state.nbody):
        pos, ipos, com = physics.xpos[env, b], physics.xipos[env, b], physics.subtree_com[env, b]
        mat, imat, quat = physics.xmat[env, b], physics.ximat[env, b], physics.xquat[env, b]
        for i in range(3):
            view.obs[env, at + i] = pos[i]
            view.obs[env, at + 3 + i] = ipos[i]
            view.obs[env, at + 6 + i] = com[i]
            for j in range(3):
                view.obs[env, at + 9 + 3 * i + j] = mat[i, j]
                view.obs[env, at + 18 + 3 * i + j] = imat[i, j]
        for i in range(4):
            view.obs[env, at + 27 + i] = quat[i]
        at += 31
    for i in range(state.nsensordata):
        view.obs[env, at + i] = physics.sensordata[env, i]


@needs_lanes
@pytest.mark.parametrize("fresh", [False, True])
def test_fields_of_every_environment_of_a_pool_agree_with_mujoco(
    fresh: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = XML if fresh else XML.replace("<sensor>", "<!--").replace("</sensor>", "-->")
    env = MujocoEnv("Rows", ("qvel", "sensordata", *ROWS), State, View, reset, step, observe, fresh=fresh)
    space = gym.spaces.Box(-np.inf, np.inf, (ROW + 5 * fresh,), np.float64)
    headrace.register("Rows-v0", MujocoTask(env, model, space, frame_skip=3), replace=True)
    pools = [headrace.make("Rows-v0", num_envs=5, num_threads=1, seed=1, physics=each) for each in ("lanes", "mujoco")]
    with pools[0] as ours, pools[1] as theirs:
        assert np.array_equal(ours.reset()[0], theirs.reset()[0])
        touching = np.zeros(5)
        for _ in range(30):
            one, other = (pool.step(np.zeros((5, 0)))[0] for pool in pools)
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)
            touching = one[:, ROW] if fresh else np.ones(5)
        assert touching.tolist() == [1] * 5  # the ball lies on the table
