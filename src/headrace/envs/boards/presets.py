"""Settings with which training on games on boards begins."""

from headrace.pool.family import Presets, Settings

# fmt: off
# Random enough that games differ, or what leaves a few lines of play is never met. Connect Four, one seed and 40 to 100
# games each, points against players who look one, two and four moves ahead: 0.77, 0.41 and 0.17 after 8 million moves;
# with an entropy coefficient of 0.1 0.74, 0.38 and 0.12: no clear difference. After 2.5 million with 0.1 and a lambda
# of 0.95: 0.57, 0.24 and 0.12, and with minibatches of 1024 0.47, 0.16 and 0.
# Runs of 6.5 million, 120 to 400 games each, two seeds: 0.59, 0.24 and 0.08, and with a coefficient of 0.05 0.60, 0.29
# and 0.10; one seed: one that falls from 0.2 to 0.01 0.60, 0.31 and 0.09, 0.05 and minibatches of 512 0.65, 0.17, 0.07.
_PPO: Settings = {
    "total_steps": 40_000_000, "num_envs": 256, "num_steps": 32, "epochs": 2, "network": "mlp", "hidden": (256, 256),
    "activation": "relu", "shared": True, "gae_lambda": 0.8, "entropy_coef": 0.2, "decisions_only": True,
    "random_moves": 5,
}
PRESETS: Presets = {
    "ppo": {"default": {
        "boards": _PPO,
        # 4,672 actions and 7,104 numbers: large minibatches, as a step of the optimiser has millions of parameters.
        "Chess-v1": _PPO | {"num_envs": 64, "hidden": (64, 64), "minibatch_size": 1024, "entropy_coef": 0.05},
        "KuhnPoker-v0": {},
        "LeducPoker-v0": {},
        "Game2048-v0": {  # for one player, so those of discrete actions
            "num_envs": 32, "num_steps": 128, "epochs": 8, "minibatch_size": 256, "entropy_coef": 0.01,
            "normalise_values": True,
        },
    }},
}
