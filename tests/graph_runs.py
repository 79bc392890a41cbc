"""Small runs whose rollouts and updates are CUDA graphs on a GPU: those of a CPU's stand-in and of a GPU itself."""

from __future__ import annotations

from typing import Any

SMALL: dict[str, Any] = {"num_envs": 16, "num_steps": 8, "seed": 3, "hidden": (16,)}
BATCH = {"minibatch_size": 64}
REPLAY = {**BATCH, "replay_size": 2000, "replay_ratio": 0.05, "learning_starts": 0}
CONTINUOUS = {"task": "Pendulum-v1", "env_options": {"max_episode_steps": 5}, "normalise_observations": True, **REPLAY}
TAG = {"task": "TagGridWorld-v0", "env_options": {"num_taggers": 4, "grid_length": 6, "max_episode_steps": 20}}
RUNS: dict[str, dict[str, Any]] = {
    "ppo": {"task": "CartPole-v1", "epochs": 2, **BATCH},
    "environments on the host": {
        "task": "CartPole-v1",
        "batch_size": 8,
        "env_options": {"max_episode_steps": 5},
        **BATCH,
    },
    "a2c": {**TAG, "algo": "a2c", "policies": {"all": {"agents": ["tagger", "runner"]}}},
    "a2c, environments on the host": {"task": "CartPole-v1", "algo": "a2c", "batch_size": 8},
    "pqn": {"task": "CartPole-v1", "algo": "pqn"},
    "pqn, environments on the host": {"task": "CartPole-v1", "algo": "pqn", "batch_size": 8},
    "values": {"task": "Pendulum-v1", "normalise_observations": True, "normalise_values": True},
    "masks": {"task": "Taxi-v3", "epochs": 2, **BATCH},
    "gru": {"task": "CartPole-v1", "network": "gru"},
    "cnn": {"task": "MinAtar-Breakout-v1", **BATCH},
    "agents that leave": {"task": "TagContinuous-v0", "env_options": {"num_taggers": 3, "num_runners": 6}},
    "curriculum": {"task": "CartPole-v1", "curriculum": {"max_episode_steps": [[0, 5], [640, 9]]}},
    **{algo: {**CONTINUOUS, "algo": algo} for algo in ("sac", "td3", "ddpg")},
}
STEPS: dict[str, dict[str, Any]] = {
    "dqn": {"task": "CartPole-v1", "algo": "dqn", "n_step": 2, **REPLAY},
    "priorities": {"task": "CartPole-v1", "algo": "dqn", "prioritised": True, "n_step": 3, **REPLAY},
    "images": {"task": "MinAtar-Breakout-v1", "algo": "dqn", **REPLAY, "minibatch_size": 8},
    "sac": {**CONTINUOUS, "algo": "sac", "n_step": 2},
}
