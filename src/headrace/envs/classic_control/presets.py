"""Settings with which training on classic control begins."""

from headrace.pool.family import Presets, Settings

# fmt: off
_CARTPOLE = {"CartPole-v0": {"stop_at_return": 195.0}, "CartPole-v1": {"stop_at_return": 475.0}}
_PENDULUMS = ("Pendulum-v0", "Pendulum-v1")
# Found by search for the least time until the task counts as solved.
_SPARSE: Settings = {
    "normalise_observations": True, "normalise_rewards": True, "num_steps": 64, "epochs": 10, "minibatch_size": 512,
    "learning_rate": 1e-3,
}
_SOLVED: Settings = {"total_steps": 1_000_000, "epochs": 8, "minibatch_size": 512, "learning_rate": 2e-3}
_PENDULUM: Settings = _SPARSE | {
    "total_steps": 400_000, "stop_at_return": -200.0, "gamma": 0.9, "gae_lambda": 0.9,
}
# Found by search for the least time to the task's usual criterion.
_CONTINUOUS: Settings = {
    "total_steps": 40_000, "stop_at_return": -200.0, "stop_episodes": 20, "hidden": (64, 64), "minibatch_size": 128,
    "learning_rate": 1e-3, "critic_learning_rate": 2e-3, "learning_starts": 1000, "gamma": 0.95, "target_rate": 0.02,
    "replay_size": 100_000,
    "matmul_precision": "highest",  # products this small are not faster in a lower precision
}

PRESETS: Presets = {
    "ppo": {"default": {
        **{task: _SOLVED | goal for task, goal in _CARTPOLE.items()},
        "Acrobot-v1": _SOLVED | {"stop_at_return": -100.0},
        **dict.fromkeys(_PENDULUMS, _PENDULUM),
        "MountainCar-v0": _SPARSE | {"total_steps": 3_000_000, "stop_at_return": -110.0, "entropy_coef": 0.01},
        # a wide policy pushes at full force for long enough to reach the hill by chance
        "MountainCarContinuous-v0": _SPARSE | {
            "total_steps": 1_000_000, "stop_at_return": 90.0, "gamma": 0.999, "log_std_init": 1.0,
        },
    }},
    "a2c": {"default": {
        **{task: {"learning_rate": 3e-3} for task in (*_CARTPOLE, "Acrobot-v1")},
        **{task: {"learning_rate": 2e-3} for task in _PENDULUMS},
    }},
    "pqn": {"default": {
        task: goal | {"total_steps": 500_000, "stop_episodes": 20, "epsilon_fraction": 0.2}
        for task, goal in _CARTPOLE.items()
    }},
    "dqn": {"default": {
        task: goal | {"total_steps": 100_000, "stop_episodes": 20, "epsilon_end": 0.01, "epsilon_fraction": 0.2}
        for task, goal in _CARTPOLE.items()
    }},
    "ddpg": {"default": dict.fromkeys(_PENDULUMS, _CONTINUOUS | {"exploration_noise": 0.2})},
    "td3": {"default": dict.fromkeys(_PENDULUMS, _CONTINUOUS | {"exploration_noise": 0.2})},
    "sac": {"default": dict.fromkeys(_PENDULUMS, _CONTINUOUS)},
}
