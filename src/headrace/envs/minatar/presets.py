"""Settings with which training on MinAtar begins."""

from headrace.envs.atari.presets import PQN
from headrace.envs.minatar import TASKS
from headrace.envs.presets import until
from headrace.pool.family import Presets, Settings

# fmt: off
_LIMITED: Settings = {"env_options": {"max_episode_steps": 5000}}
# Found by search for the highest return in a few minutes. Episodes of a perfect player end by the limit alone.
_PPO: Settings = _LIMITED | {
    "total_steps": 5_000_000, "num_envs": 128, "num_steps": 64, "minibatch_size": 1024, "learning_rate": 2.5e-3,
    "value_coef": 0.5, "entropy_coef": 0.01,
}
_PQN: Settings = PQN | _LIMITED | {"total_steps": 5_000_000, "learning_rate": 5e-4, "epsilon_end": 0.02}
# For few seconds: a short exploration, and fewer, larger updates in bfloat16.
_PQN_FAST: Settings = _PQN | {
    "total_steps": 1_000_000, "stop_episodes": 20, "torch_threads": 1, "bf16": True, "minibatch_size": 256,
    "learning_rate": 1e-3,
}
# A larger λ is the sooner at two games. With it, Asterix is at 9 in place of 23 after a million steps, and Freeway,
# whose episodes all end at once, forgets at their second end what it had learnt.
_PQN_FAR: Settings = _PQN_FAST | {"q_lambda": 0.9}
# Found by search on MinAtar-Breakout-v1: a mean return of 7 within 80,000 steps.
_DQN: Settings = _LIMITED | {
    "total_steps": 500_000, "minibatch_size": 64, "learning_rate": 5e-4, "loss": "huber", "target_rate": 0.01,
    "n_step": 3, "epsilon_end": 0.02, "epsilon_fraction": 0.05,
}
PRESETS: Presets = {
    "ppo": {"default": {"minatar": _PPO}},
    "a2c": {"default": {task: {"num_envs": 32, "num_steps": 5} for task in TASKS}},
    "pqn": {"default": {"minatar": _PQN}, "fast": {
        "minatar": _PQN_FAST,
        # somewhat more than the goals of 15, 10, 15 and 50, which a lucky mean of 20 episodes reaches too early
        "MinAtar-Asterix-v1": _PQN_FAST | until(25.0),
        "MinAtar-Breakout-v1": _PQN_FAR | until(13.0),
        # Ends of episodes, which come at once, disturb it for a while: it does not stop there.
        "MinAtar-Freeway-v1": _PQN_FAST | until(100.0) | {"total_steps": 1_200_000},
        "MinAtar-Seaquest-v1": _PQN_FAST | until(25.0) | {"total_steps": 2_000_000},
        "MinAtar-SpaceInvaders-v1": _PQN_FAR | until(60.0),
    }},
    "dqn": {"default": {"minatar": _DQN}, "fast": {
        "minatar": _DQN | {
            "num_envs": 32, "torch_threads": 1, "dueling": True, "double": False, "minibatch_size": 256,
            "learning_rate": 1e-3, "replay_ratio": 1 / 32, "target_update": 100, "publish_every": 4,
            "epsilon_fraction": 0.1,
        },
    }},
}
