"""Settings with which training on MiniGrid and BabyAI begins."""

from headrace.pool.family import FROM_PIXELS, Presets, Settings

# fmt: off
# Rewards are rare: small rollouts, so that what leads to one is learnt at once, and enough entropy that a policy which
# has yet to earn any goes on exploring; with 0.01, one seed of four never opened DoorKey-8x8's door again. It falls
# later, since the most likely moves of an agent that hesitates go round in circles: 0.2 of 0.9.
_PPO: Settings = {
    "total_steps": 2_000_000, "num_envs": 32, "num_steps": 64, "epochs": 4, "minibatch_size": 256, "hidden": (64, 64),
    "learning_rate": 1e-3, "entropy_coef": 0.03,
    "schedules": {"entropy_coef": [(0, 0.03), (800_000, 0.03), (1_500_000, 0.002)]},
}
_DOORKEY: Settings = _PPO | {
    "total_steps": 900_000, "stop_at_return": 1.0,  # out of reach, so that exploration has fallen when a run ends
    "schedules": {"entropy_coef": [(0, 0.03), (300_000, 0.03), (550_000, 0.002)]},
}
# A CNN's entropy falls, while there are no rewards, below that of a policy which explores: with 0.03, two seeds of
# three had not opened DoorKey-8x8's door after 230,000 steps. With these, seed 2 was at 0.9 after 338,000, which are 59
# seconds of a core with AVX-512 BF16.
_PIXELS: Settings = {
    "trunk": "strided", "bf16": True, "entropy_coef": 0.1,
    "schedules": {"entropy_coef": [(0, 0.1), (400_000, 0.1), (800_000, 0.03), (1_500_000, 0.002)]},
}
_DOORKEY_PIXELS: Settings = _DOORKEY | _PIXELS | {
    "total_steps": 600_000,
    "schedules": {"entropy_coef": [(0, 0.1), (200_000, 0.1), (350_000, 0.03), (500_000, 0.002)]},
}
_DEFAULT = {
    "minigrid": _PPO, "MiniGrid-DoorKey-8x8-v0": _DOORKEY, f"minigrid{FROM_PIXELS}": _PPO | _PIXELS,
    f"MiniGrid-DoorKey-8x8-v0{FROM_PIXELS}": _DOORKEY_PIXELS,
}
PRESETS: Presets = {"ppo": {"default": _DEFAULT}}
