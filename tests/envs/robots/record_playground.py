"""Records observations and reward terms of MuJoCo Playground's tasks of walking, beside which ours are tested.

    python record_playground.py ROBOT [STATES]      # go1, go1_rough, g1, t1; with playground, jax and mujoco installed

Playground's `step` runs as it is, with noise and pushes off. Only its physics is replaced, by five or ten calls of
`mj_step` whose solvers run to their end, since those of the published models stop before; sensors
are MuJoCo's own. Playground downloads its models at first use: a folder of them must stand where it looks for it,
``mujoco_playground/external_deps/mujoco_menagerie``; those of EnvPool's packages of assets will do. Its rough ground is
replaced by ours, ``src/headrace/envs/robots/ground.py``.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false, reportArgumentType=false

from __future__ import annotations

import os
import runpy
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_ENABLE_X64"] = "1"

import jax
import jax.numpy as jp
import mujoco
import numpy as np
from mujoco_playground._src import mjx_env

EPISODE = 40  # steps from a start to the next
FIELDS = "command", "last_act", "feet_air_time", "last_contact", "swing_peak", "phase"


class Physics:
    """What `step` reads of MJX's data, of MuJoCo's own."""

    def __init__(self, model: mujoco.MjModel, qpos: np.ndarray, qvel: np.ndarray):
        self.model, self.inner = model, mujoco.MjData(model)
        self.inner.qpos, self.inner.qvel = qpos, qvel

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        return jp.array(found.reshape(-1, 3, 3) if name == "site_xmat" else found)

    def replace(self, qvel: Any) -> Physics:
        """As a push has it, which is off here: velocities stay what they are."""
        assert np.array_equal(qvel, self.inner.qvel)
        return self


def stepped(model: Any, data: Physics, targets: Any, substeps: int) -> Physics:
    data.inner.ctrl = np.asarray(targets)
    for _ in range(substeps):
        mujoco.mj_step(data.model, data.inner)
    return data


def on_our_ground(xml: str, assets: Any) -> mujoco.MjModel:
    """Playground's model, on rough ground of ours."""
    ours = runpy.run_path(str(Path(__file__).parents[3] / "src/headrace/envs/robots/ground.py"))
    spec = mujoco.MjSpec.from_string(xml, include=assets, assets=assets)
    field = spec.hfield("hfield")
    field.file, field.nrow, field.ncol = "", ours["POINTS"], ours["POINTS"]
    field.size, field.userdata = (ours["HALF"], ours["HALF"], 0.05, 1.0), ours["heights"](0).ravel()
    return spec.compile()


def main(robot: str, states: int) -> None:
    kind, _, rough = robot.partition("_")
    joystick = import_module(f"mujoco_playground._src.locomotion.{kind}.joystick")
    config = joystick.default_config()
    config.impl, config.noise_config.level = "jax", 0.0
    if "push_config" in config:
        config.push_config.enable = False
    if rough:
        base = import_module(f"mujoco_playground._src.locomotion.{kind}.base")
        base.mujoco = SimpleNamespace(MjModel=SimpleNamespace(from_xml_string=on_our_ground))
    env = joystick.Joystick(f"{rough or 'flat'}_terrain", config=config)
    model = env.mj_model
    model.opt.iterations, model.opt.ls_iterations = 100, 50
    model.opt.ccd_iterations = 35  # MuJoCo's; after Playground's 20, one contact of some hundred is not found yet
    mjx_env.step = stepped
    rng = np.random.default_rng(0)
    rows: dict[str, list[Any]] = {}
    start = env.reset(jax.random.PRNGKey(0))
    scales = config.reward_config.scales
    while len(rows.get("reward", ())) < states:
        size, action = rng.choice([0.02, 0.1, 0.6]), np.zeros(model.nu)
        qpos = np.array(start.data.qpos)
        mujoco.mj_integratePos(model, qpos, rng.normal(0, 0.2 * size**0.5, model.nv), 1)
        data = Physics(model, qpos, rng.normal(0, size**0.5, model.nv))
        state = start.replace(data=data, metrics=dict(start.metrics), info=dict(start.info))
        state.info["command"] = jp.array(rng.uniform(-1, 1, 3) * (rng.random() < 0.75))
        for _ in range(EPISODE):
            # of which a file keeps 32 bits, so that those are the state
            for field in ("qpos", "qvel"):
                setattr(data.inner, field, np.float32(getattr(data.inner, field)))
            for field in FIELDS:
                if field in state.info and field != "last_contact":
                    state.info[field] = jp.float64(np.float32(state.info[field]))
            action = np.float64(np.float32(np.clip(0.7 * action + rng.normal(0, size, model.nu), -1, 1)))
            row = {field: np.array(getattr(data.inner, field)) for field in ("qpos", "qvel")} | {"action": action}
            row |= {field: np.array(state.info[field]) for field in FIELDS if field in state.info}
            state = env.step(state, jp.array(action))
            row |= {"obs": state.obs["state"], "reward": state.reward, "done": state.done}
            row |= {f"term {name}": state.metrics[f"reward/{name}"] / s for name, s in scales.items() if s}
            for name, value in row.items():
                rows.setdefault(name, []).append(np.asarray(value))
            if state.done:
                break
    kept = np.sort(rng.choice(len(rows["reward"]), states, replace=False))
    packed = {name: np.stack(values)[kept] for name, values in rows.items()}
    packed = {name: each if each.dtype == bool else each.astype(np.float32) for name, each in packed.items()}
    file = Path(__file__).with_name(f"playground_{robot}.npz")
    np.savez_compressed(file, **packed)
    print(f"{file.name}: {states} states, {packed['done'].mean():.1%} ended, {file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
