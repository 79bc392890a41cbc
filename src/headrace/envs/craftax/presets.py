"""Settings with which training on Craftax begins."""

from headrace.pool.family import Presets, Settings

# fmt: off
# Compiled updates skip the zeros of the 1,345 numbers. One seed each: these were at a return of 10.2 after 103 s (5.2
# million steps), one layer of 256 units with two epochs, which takes half as long, at 8.6 after 93 s (9.2 million).
# Another seed ends with 16.3 of the 22 achievements in an episode, after 18 minutes, eight of them with one core.
_PPO: Settings = {
    "total_steps": 36_000_000, "num_envs": 512, "num_steps": 64, "epochs": 3, "minibatch_size": 4096,
    "hidden": (256, 128), "learning_rate": 1e-3, "gae_lambda": 0.8, "entropy_coef": 0.01,
}
# One seed: a return of 10 after 2.3 million steps, or with 3 epochs of minibatches of 2,048 after 2.6 million, in half
# as much time again.
_PPO_PIXELS: Settings = {
    "total_steps": 6_000_000, "stop_at_return": 11.0, "num_envs": 256, "num_steps": 64, "epochs": 2,
    "minibatch_size": 1024, "learning_rate": 1e-3, "gae_lambda": 0.8, "entropy_coef": 0.005,
    "trunk": "strided", "standardise_pixels": True, "bf16": True,
}
PRESETS: Presets = {"ppo": {"default": {"Craftax-Classic-Symbolic-v1": _PPO, "Craftax-Classic-Pixels-v1": _PPO_PIXELS}}}
