"""Records observations and reward terms of mjlab's task of the Go1 on flat ground, beside which ours are tested.

    python record_mjlab.py [STATES]      # in an environment with mjlab 1.6.0 and torch

What runs is mjlab's: its model of the robot, with its settings of the task; its data of entities; its functions of
reward, observation and end, with the parameters of the task; and how it tells first contacts of feet. Its environment
around them needs MuJoCo Warp, in floats. In its place stand `mj_step`, whose solver runs to its end, and the order of
its `step`. Only feet collide, and their heights, which mjlab measures by rays before the step, are those of the step.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false, reportArgumentType=false

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np
import torch
from mjlab.asset_zoo.robots import GO1_ACTION_SCALE, get_go1_robot_cfg
from mjlab.entity import Entity
from mjlab.entity.data import EntityData
from mjlab.envs.mdp import observations
from mjlab.sensor import ContactSensor
from mjlab.sensor.contact_sensor import _AirTimeState
from mjlab.sensor.terrain_height_sensor import TerrainHeightSensor
from mjlab.tasks.velocity.config.go1.env_cfgs import unitree_go1_flat_env_cfg

FEET = ("FR", "FL", "RR", "RL")
EPISODE = 30  # steps from a start to the next
SUBSTEPS, STEP = 4, 0.02
ALL = SimpleNamespace(name="robot", joint_ids=slice(None))


def model_of() -> Any:
    """mjlab's own robot on a plane, of which only the feet collide."""
    entity = Entity(get_go1_robot_cfg())
    spec = entity.spec
    spec.worldbody.add_geom(name="terrain", type=mujoco.mjtGeom.mjGEOM_PLANE, size=(0, 0, 0.01))
    for geom in spec.geoms:
        if geom.name != "terrain":
            geom.contype = 0
            geom.conaffinity = int(geom.name.endswith("_foot_collision"))
    sim = unitree_go1_flat_env_cfg().sim.mujoco
    option = spec.option
    option.timestep, option.impratio, option.cone = sim.timestep, sim.impratio, mujoco.mjtCone.mjCONE_ELLIPTIC
    option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    option.iterations, option.ls_iterations, option.tolerance = 100, 50, 1e-14
    for foot in FEET:
        spec.add_sensor(
            name=f"{foot}_force", type=mujoco.mjtSensor.mjSENS_CONTACT, objtype=mujoco.mjtObj.mjOBJ_GEOM,
            objname=f"{foot}_foot_collision", reftype=mujoco.mjtObj.mjOBJ_GEOM, refname="terrain", intprm=[3, 3, 1],
        )  # fmt: skip
    return spec.compile()


def tensor(values: Any) -> torch.Tensor:
    return torch.tensor(np.asarray(values), dtype=torch.float64)[None]


class Fields:
    """MuJoCo's data as mjlab's functions read it: tensors of one simulation."""

    def __init__(self, data: Any):
        self.inner = data

    def __getattr__(self, name: str) -> torch.Tensor:
        return tensor(getattr(self.inner, name))


class Heights(TerrainHeightSensor):
    """The heights of feet's sites above the plane, which rays would find."""

    data: Any = None  # pyright: ignore[reportIncompatibleMethodOverride]


class World:
    """What mjlab's functions read of its environment, of one simulation."""

    def __init__(self, model: Any):
        self.model, self.data = model, mujoco.MjData(model)
        names = [model.joint(i).name for i in range(1, model.njnt)]
        start = {"thigh": 0.9, "calf": -1.8, "R_hip": 0.1, "L_hip": -0.1}
        self.home = np.array([next(value for part, value in start.items() if part in name) for name in names])
        reach = {pattern.split("_")[1]: value for pattern, value in GO1_ACTION_SCALE.items()}
        self.reach = np.array([reach[name.split("_")[1]] for name in names])
        self.servos = [names.index(model.joint(int(model.actuator_trnid[i, 0])).name) for i in range(model.nu)]
        middle, half = model.jnt_range[1:].mean(1), 0.9 * np.ptp(model.jnt_range[1:], 1) / 2
        sites = torch.tensor([model.site(foot).id for foot in FEET])
        asset = object.__new__(EntityData)
        given = {
            "indexing": SimpleNamespace(
                root_body_id=1, joint_q_adr=torch.arange(7, model.nq), joint_v_adr=torch.arange(6, model.nv),
                site_ids=sites, body_ids=torch.tensor([1]),
            ),
            "default_joint_pos": tensor(self.home), "default_joint_vel": tensor(0 * self.home),
            "soft_joint_pos_limits": tensor(np.stack([middle - half, middle + half], 1)),
            "gravity_vec_w": tensor([0.0, 0.0, -1.0]), "encoder_bias": tensor(0 * self.home),
            "model": SimpleNamespace(site_bodyid=torch.tensor(model.site_bodyid)), "data": Fields(self.data),
        }  # fmt: skip
        vars(asset).update(given)
        entity = SimpleNamespace(data=asset, find_joints=lambda wanted: ([*range(12)], names))
        times = _AirTimeState(*(torch.zeros(1, 4, dtype=torch.float64) for _ in range(4)))
        self.contact = SimpleNamespace(
            cfg=SimpleNamespace(fields=("found", "force"), num_slots=1), _air_time_state=times, data=None
        )
        self.contact._extract_sensor_data = lambda: self.contact.data
        self.contact.compute_first_contact = lambda dt: ContactSensor.compute_first_contact(self.contact, dt)
        self.heights, self.asset = object.__new__(Heights), asset
        self.heights._num_frames = 4
        self.scene = {"robot": entity, "feet_ground_contact": self.contact, "foot_height_scan": self.heights}
        zeros = torch.zeros(1, 12, dtype=torch.float64)
        self.action_manager = SimpleNamespace(action=zeros, prev_action=zeros)
        self.command = torch.zeros(1, 3, dtype=torch.float64)
        self.command_manager = SimpleNamespace(get_command=lambda name: self.command)
        self.extras: dict[str, Any] = {"log": {}}
        self.device, self.num_envs, self.step_dt = "cpu", 1, STEP

    def look(self) -> None:
        """Takes over what sensors of feet see."""
        rows = np.stack([self.data.sensor(f"{foot}_force").data for foot in FEET])
        self.contact.data = SimpleNamespace(found=tensor(rows[:, 0]), force=tensor(rows[:, 1:]))
        high = [self.data.site(foot).xpos[2] for foot in FEET]
        self.heights.data = SimpleNamespace(heights=tensor(high))

    def advance(self, action: np.ndarray) -> None:
        """A step, as far as to the reward."""
        manager = self.action_manager
        manager.prev_action, manager.action = manager.action, tensor(action)
        self.data.ctrl = (self.home + self.reach * action)[self.servos]
        for _ in range(SUBSTEPS):
            mujoco.mj_step(self.model, self.data)
            self.look()
            ContactSensor._update_air_time_tracking(self.contact, STEP / SUBSTEPS)


def functions(config: Any, world: Any) -> dict[str, tuple[Any, dict[str, Any], float]]:
    """mjlab's terms of the reward: name → function, parameters and factor."""
    found = {}
    for name, term in config.rewards.items():
        if not term.weight:
            continue
        if (asset := term.params.get("asset_cfg")) is not None:
            asset.joint_ids, asset.body_ids, asset.site_ids = slice(None), [0], slice(None)
        made = term.func(term, world) if isinstance(term.func, type) else term.func
        found[name] = (made, term.params, term.weight)
    return found


def main(states: int) -> None:
    config, rng = unitree_go1_flat_env_cfg(), np.random.default_rng(0)
    model, rows = model_of(), {}
    while len(rows.get("reward", ())) < 4 * states:
        world, size = World(model), rng.choice([0.05, 0.3, 1.0])
        terms = functions(config, world)
        data, action = world.data, np.zeros(12)
        data.qpos[:] = [0, 0, rng.uniform(0.24, 0.33), 1, 0, 0, 0, *world.home]
        mujoco.mj_integratePos(model, data.qpos, rng.normal(0, 0.2 * size**0.5, model.nv), 1)
        data.qvel = rng.normal(0, size**0.5, model.nv)
        world.command = tensor(rng.uniform(-1, 1, 3) * (rng.random() < 0.8))
        world.look()
        for _ in range(EPISODE):
            for field in ("qpos", "qvel"):  # of which a file keeps 32 bits, so that those are the state
                setattr(data, field, np.float32(getattr(data, field)))
            action = np.float64(np.float32(0.7 * action + rng.normal(0, size, 12)))
            manager, swing = world.action_manager, terms["foot_swing_height"][0]
            swing.peak_heights = swing.peak_heights.float().double()
            before = world.contact.data.found[0].numpy() > 0
            row = {"qpos": data.qpos, "qvel": data.qvel, "last_action": manager.action[0], "action": action}
            row |= {"command": world.command[0], "touching": before, "peak": swing.peak_heights[0]}
            row = {name: np.array(value) for name, value in row.items()}
            world.advance(action)
            first = world.contact.compute_first_contact(STEP)[0].numpy()
            row["bounced"] = np.any(first != ((world.contact.data.found[0].numpy() > 0) & ~before))
            values = {name: float(func(world, **given)[0]) for name, (func, given, _) in terms.items()}
            row |= {f"term {name}": value for name, value in values.items()}
            row["reward"] = STEP * sum(terms[name][2] * value for name, value in values.items())
            ends = config.terminations["fell_over"]
            row["done"] = bool(ends.func(world, **ends.params)[0])
            mujoco.mj_forward(model, data)
            row["obs"] = np.concatenate([
                data.sensor("imu_lin_vel").data, data.sensor("imu_ang_vel").data,
                observations.projected_gravity(world)[0], observations.joint_pos_rel(world, asset_cfg=ALL)[0],
                observations.joint_vel_rel(world, asset_cfg=ALL)[0], observations.last_action(world)[0],
                world.command[0],
            ])  # fmt: skip
            for name, value in row.items():
                rows.setdefault(name, []).append(np.asarray(value))
            if row["done"]:
                break
    kept = np.sort(rng.choice(len(rows["reward"]), states, replace=False))
    packed = {name: np.stack(values)[kept] for name, values in rows.items()}
    packed = {name: each if each.dtype == bool else each.astype(np.float32) for name, each in packed.items()}
    file = Path(__file__).with_name("mjlab_go1.npz")
    np.savez_compressed(file, **packed)
    shares = ", ".join(f"{packed[name].mean():.1%} {name}" for name in ("done", "bounced"))
    print(f"{file.name}: {states} states, {shares}, {file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
