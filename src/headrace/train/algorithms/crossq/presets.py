"""Settings with which runs of CrossQ begin, by preset and task."""

from __future__ import annotations

from headrace.train.settings.algorithm import DEFAULT_PRESET, Presets, Settings

# fmt: off
# The settings of the paper's experiments: critics of 2,048 units, an update for every step.
_CROSSQ: Settings = {
    "total_steps": 1_000_000, "num_envs": 1, "num_steps": 1, "hidden": (256, 256), "critic_hidden": (2048, 2048),
    "activation": "relu", "minibatch_size": 256, "learning_rate": 1e-3, "critic_learning_rate": 1e-3,
    "anneal_learning_rate": False, "adam_epsilon": 1e-8, "learning_starts": 5000, "replay_ratio": 1.0,
    "actor_device": "",
}
CROSSQ: Presets = {
    # For few steps: narrower critics and several environments, both of which save time.
    DEFAULT_PRESET: {"": _CROSSQ | {"num_envs": 8, "num_steps": 8, "critic_hidden": (512, 512)}},
    # For few seconds, most of which are updates: few updates, targets of three steps, and a learning rate that ends
    # at 0.
    "fast": {"": _CROSSQ | {
        "total_steps": 300_000, "num_envs": 32, "num_steps": 8, "critic_hidden": (), "anneal_learning_rate": True,
        "replay_ratio": 1 / 32, "n_step": 3, "torch_threads": 1,
    }},
    "published": {"": _CROSSQ},
}
