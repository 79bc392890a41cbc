"""Records flights of the simulator l2f in a file, which tests replay without it.

    pip install l2f==2.0.18
    python tests/envs/record_crazyflie.py

Craft with RLtools' parameters, with others, and with disturbances fly under random commands from l2f's own initial
states. Recorded are parameters, motions before each step and after the last, commands, observations, rewards, and ends.
Weights of rewards, and ends, are those of RLtools (rl/zoo/l2f/environment.h); the package has others.
"""

# pyright: reportMissingImports=false

import json
from pathlib import Path
from typing import Any

import l2f
import numpy as np

FILE = Path(__file__).with_name("crazyflie_recorded.npz")
CRAFT, STEPS = 8, 50
MOTION = ("position", "orientation", "linear_velocity", "angular_velocity", "rpm")
REWARD = {"scale": 0.1, "constant": 1.0, "position": 10.0, "orientation": 2.5, "linear_velocity": 0.05, "action": 0.1}
INERTIA = np.array([9.416556729130406e-06, 9.644051701582312e-06, 1.745951732253285e-05])
THRUST = [0.00352526, 0.01437313, 0.09223048]


def drawn(rng: np.random.Generator, spread: float, force: float, torque: float) -> dict[str, np.ndarray]:
    """What is particular to each craft: factors, and disturbances, which l2f can have alike in each axis only."""
    return {
        "mass": rng.uniform(1 - spread, 1 + spread, CRAFT),
        "thrust": rng.uniform(1 - spread, 1 + spread, (CRAFT, 4)),
        "lag": rng.uniform(1 - spread, 1 + spread, (CRAFT, 4)),
        "push": np.repeat(rng.uniform(-force, force, (CRAFT, 1)), 3, axis=1),
        "twist": np.repeat(rng.uniform(-torque, torque, (CRAFT, 1)), 3, axis=1),
    }


def parameters(known: dict[str, Any], mass: Any, thrust: Any, lag: Any, push: Any, twist: Any) -> str:
    """l2f's parameters of one craft, with all their digits, which its own text lacks."""
    known["dynamics"] |= {
        "mass": 0.0306 * mass,
        "J": np.diag(INERTIA * mass).tolist(),
        "J_inv": np.diag(1 / (INERTIA * mass)).tolist(),
        "rotor_thrust_coefficients": np.outer(thrust, THRUST).tolist(),
        "rotor_time_constants_rising": (lag * 0.05545454545454546).tolist(),
        "rotor_time_constants_falling": (lag * 0.24939393939393945).tolist(),
        "hovering_throttle_relative": 0.7261389721508553,
    }
    weights = known["mdp"]["reward"]
    weights.update({name: REWARD.get(name, 0.0) for name in weights if name != "non_negative"})
    known["mdp"]["termination"]["linear_velocity_threshold"] = 10.0
    known["disturbances"]["random_force"]["mean"] = push[0]
    known["disturbances"]["random_torque"]["mean"] = twist[0]
    return json.dumps(known)


def motions(vector: Any) -> dict[str, np.ndarray]:
    states = vector.states
    return {name: np.array([getattr(one, name) for one in states]) for name in MOTION}


def flights(rng: np.random.Generator, seed: int, craft: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Flies all craft, and returns what is recorded: arrays [CRAFT, …], [STEPS, CRAFT, …] or, of motions, one more."""
    many = l2f.vector_selector[CRAFT]
    device, random = l2f.Device(), many.VectorRng()
    env, params, now, then = (
        getattr(many, f"Vector{name}")() for name in ("Environment", "Parameters", "State", "State")
    )
    many.initialize_rng(device, random, seed)
    many.initialize_environment(device, env)
    many.initial_parameters(device, env, params)
    changed = params.parameters
    for i, (one, known) in enumerate(zip(env.environments, changed, strict=True)):
        text = l2f.parameters_to_json(device, one, known)
        new = parameters(json.loads(text), **{name: values[i] for name, values in craft.items()})
        l2f.parameters_from_json(device, one, new, known)
    params.parameters = changed
    many.sample_initial_state(device, env, params, now, random)
    found: list[dict[str, np.ndarray]] = []
    action = np.zeros((CRAFT, 4), np.float32)
    for step in range(STEPS):
        if step % 10 == 0:
            action = rng.uniform(-1, 1, (CRAFT, 4)).astype(np.float32)
            action[::2] = 0.61 + 0.02 * action[::2]  # half of them hover
        obs, reward = np.zeros((CRAFT, env.OBSERVATION_DIM), np.float32), np.zeros(CRAFT, np.float32)
        ends, before = np.zeros(CRAFT, bool), motions(now)
        many.step(device, env, params, now, action, then, random)
        many.reward(device, env, params, now, action, then, reward, random)
        many.terminated(device, env, params, then, ends, random)
        now.assign(then)
        many.observe(device, env, params, now, obs, random)
        found.append(before | {"action": action, "obs": obs, "reward": reward, "ends": ends})
    recorded = {name: np.array([each[name] for each in found]) for name in found[0]}
    last = motions(now)
    return craft | recorded | {name: np.concatenate([recorded[name], last[name][None]]) for name in MOTION}


def main() -> None:
    rng = np.random.default_rng(0)
    kinds = {"plain": (0.0, 0.0, 0.0), "spread": (0.3, 0.0, 0.0), "disturbed": (0.0, 0.05, 1e-4)}
    arrays = {}
    for seed, (kind, spreads) in enumerate(kinds.items()):
        for name, values in flights(rng, seed, drawn(rng, *spreads)).items():
            arrays[f"{kind}/{name}"] = values.astype(np.float32) if values.dtype != bool else values
        print(f"{kind}: {arrays[f'{kind}/ends'].any(0).sum()} of {CRAFT} flights end within {STEPS} steps")
    np.savez_compressed(FILE, **arrays)
    print(f"{FILE.name}: {FILE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
