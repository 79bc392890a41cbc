"""Records observations and reward terms of UniLab's task go2_joystick_flat, beside which ours are tested.

    python record_unilab.py [STATES]      # in an environment with unilab 1.5.2, its extra mujoco, and torch

UniLab's environment runs as it is, on its own physics, by the settings of its PPO; servos are not varied. Meshes, which
it downloads, are taken out of its model, where they are for looks alone; its solver runs to its end; and its clock is
set to times of each row's own.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false, reportArgumentType=false

from __future__ import annotations

import re
import sys
import tempfile
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import OmegaConf
from unilab.base import registry

STEPS = 40
LEGS = [1, 0, 3, 2]  # of ours, in UniLab's order
JOINTS = [3 * leg + i for leg in LEGS for i in range(3)]
PARTS = {"gyro": 3, "gravity": 3, "angles": JOINTS, "speeds": JOINTS, "action": JOINTS, "command": 3, "clock": LEGS}


def ours(values: torch.Tensor | np.ndarray, *parts: Any) -> np.ndarray:
    """Rows with the legs in our order: parts are the places of their elements, or how many stay as they are."""
    order, at = [], 0
    for part in parts:
        places = range(part) if isinstance(part, int) else part
        order += [at + place for place in places]
        at += len(places)
    return np.asarray(values)[:, order].astype(np.float32)


def settings(folder: Path) -> dict[str, Any]:
    """UniLab's own, with a model without meshes in ``folder``."""
    package = Path(str(resources.files("unilab")))
    robot = package / "assets/robots/go2"
    for name in ("scene_flat.xml", "go2.xml"):
        text = re.sub(r"<mesh [^>]*/>", "", (robot / name).read_text())
        text = text.replace("<option ", '<option tolerance="1e-14" ')
        (folder / name).write_text(re.sub(r"<geom [^>]*\bmesh=[^>]*/>", "", text))
    task = package / "conf/ppo/task/go2_joystick_flat"
    merged = OmegaConf.merge(*(OmegaConf.load(task / f"{name}.yaml") for name in ("base", "mujoco")))
    given: Any = OmegaConf.to_container(merged)
    given["env"]["scene"]["model_file"] = str(folder / "scene_flat.xml")
    given["env"]["events"]["pd_gains"]["params"] |= {"kp_range": [35.0, 35.0], "kd_range": [0.5, 0.5]}
    return {**given["env"], "rewards": given["reward"]}


def main(states: int) -> None:
    registry.ensure_registries()
    with tempfile.TemporaryDirectory() as folder:
        env = registry.make("Go2JoystickFlat", "mujoco", settings(Path(folder)), num_envs=states)
    env.seed(0)
    torch.manual_seed(0)
    env.reset()
    size = torch.tensor([0.1, 0.5, 2.0])[torch.randint(3, (states, 1))]
    clock, action = torch.rand(states), torch.zeros(states, 12)
    terms = [cfg.func for cfg in env.reward_manager._term_cfgs]
    for group in env.observation_manager._group_obs_term_cfgs.values():
        terms += [cfg.func for cfg in group]
    for each in terms:
        if hasattr(each, "_phase_value"):
            each._phase_value = clock.clone()
    backend, rows, state = env._backend, {}, None
    for _ in range(STEPS):
        action = 0.7 * action + size * torch.randn(states, 12)
        phase = next(each._phase_value.clone() for each in terms if hasattr(each, "_phase_value"))
        now = {"qpos": np.array(backend._qpos_view), "qvel": np.array(backend._qvel_view)}
        rows = {
            "qpos": ours(now["qpos"], 7, JOINTS),
            "qvel": ours(now["qvel"], 6, JOINTS),
            "last_action": ours(env.action_manager.action.clone(), JOINTS),
            "action": ours(action, JOINTS),
            "command": env.command_manager.get_command("twist").numpy().copy(),
            "clock": phase.numpy(),
        }
        state = env.step(action)
    assert state is not None
    rows |= {"obs": ours(state.obs["obs"], *PARTS.values()), "reward": state.reward.numpy()}
    rows["done"] = state.terminated.numpy()
    rows["lives"] = ~(state.terminated | state.truncated).numpy()
    for i, name in enumerate(env.reward_manager.active_terms):
        weight = env.reward_manager._term_cfgs[i].weight
        rows[f"term {name}"] = (env.reward_manager._step_reward[:, i] / weight).numpy()
    file = Path(__file__).with_name("unilab_go2.npz")
    np.savez_compressed(file, **rows)
    print(f"{file.name}: {states} states, {rows['done'].mean():.1%} ended, {file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
