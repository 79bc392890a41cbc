"""Settings with which runs of PQN begin, by preset and task."""

from __future__ import annotations

from headrace.train.algorithms.presets import CARTPOLE, CLIPPED, COMBINED, LIMITED, until
from headrace.train.settings.algorithm import DEFAULT_PRESET, Presets, Settings

# fmt: off
# For observations that are vectors, with perceptrons; the sizes are those of purejaxql for CartPole.
_PQN: Settings = {
    "num_envs": 32, "num_steps": 64, "hidden": (128, 128), "activation": "relu", "minibatch_size": 128, "epochs": 4,
    "q_lambda": 0.95, "learning_rate": 1e-3, "max_grad_norm": 10.0,
}
# The authors' settings: 128 environments, 32 steps, 2 epochs of 32 minibatches.
_PQN_IMAGES: Settings = _PQN | {
    "num_envs": 128, "num_steps": 32, "minibatch_size": 128, "epochs": 2, "q_lambda": 0.65, "learning_rate": 2.5e-4,
}
_PQN_MINATAR: Settings = _PQN_IMAGES | LIMITED | {"total_steps": 5_000_000, "learning_rate": 5e-4, "epsilon_end": 0.02}
# For few seconds: a short exploration, and fewer, larger updates in bfloat16.
_PQN_MINATAR_FAST: Settings = _PQN_MINATAR | {
    "total_steps": 1_000_000, "stop_episodes": 20, "torch_threads": 1, "bf16": True, "minibatch_size": 256,
    "learning_rate": 1e-3,
}
# A larger λ is the sooner at two games. With it, Asterix is at 9 in place of 23 after a million steps, and Freeway,
# whose episodes all end at once, forgets at their second end what it had learnt.
_PQN_MINATAR_FAR: Settings = _PQN_MINATAR_FAST | {"q_lambda": 0.9}
PQN: Presets = {
    DEFAULT_PRESET: {
        "": _PQN,
        "atari": _PQN_IMAGES | CLIPPED | {
            "total_steps": 10_000_000, "anneal_learning_rate": False, "epsilon_end": 0.001,
        },
        "vizdoom": _PQN_IMAGES | COMBINED | {"total_steps": 1_000_000},
        "minatar": _PQN_MINATAR,
        **{
            task: _PQN | goal | {"total_steps": 500_000, "stop_episodes": 20, "epsilon_fraction": 0.2}
            for task, goal in CARTPOLE.items()
        },
    },
    "fast": {
        "minatar": _PQN_MINATAR_FAST,
        # somewhat more than the goals of 15, 10, 15 and 50, which a lucky mean of 20 episodes reaches too early
        "MinAtar-Asterix-v1": _PQN_MINATAR_FAST | until(25.0),
        "MinAtar-Breakout-v1": _PQN_MINATAR_FAR | until(13.0),
        # Ends of episodes, which come at once, disturb it for a while: it does not stop there.
        "MinAtar-Freeway-v1": _PQN_MINATAR_FAST | until(100.0) | {"total_steps": 1_200_000},
        "MinAtar-Seaquest-v1": _PQN_MINATAR_FAST | until(25.0) | {"total_steps": 2_000_000},
        "MinAtar-SpaceInvaders-v1": _PQN_MINATAR_FAR | until(60.0),
    },
}
