"""Trains with stable-baselines3, or with sbx, which has its interface."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from metrics import Metrics, Request, write_games


def train(request: Request) -> None:
    """Trains, then plays episodes without exploration.

    Args:
        request: as `Request` says; ``settings`` are keyword arguments of the algorithm, with ``policy``, and with
            ``normalize`` for observations and rewards by running statistics.
    """
    import torch
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecNormalize

    class Progress(BaseCallback):
        """A callback that writes metrics, and ends training at the goal or after the minutes."""

        def _on_training_start(self) -> None:
            self._metrics = Metrics(request)

        def _on_step(self) -> bool:
            for info in self.locals["infos"]:
                if "episode" in info:
                    self._metrics.episode(float(info["episode"]["r"]))
            return not self._metrics.at(self.num_timesteps)

        def _on_training_end(self) -> None:
            self._metrics.close()

    torch.set_num_threads(request["threads"])
    settings, atari = dict(request["settings"]), request["task"].startswith("ALE/")
    normalise = settings.pop("normalize", False)
    venv = _environments(request, request["num_envs"], atari)
    if normalise:
        venv = VecNormalize(venv, gamma=settings.get("gamma", 0.99))
    policy = settings.pop("policy", "CnnPolicy" if atari else "MlpPolicy")
    algo = getattr(import_module(request["who"].replace("-", "_")), request["algo"])
    model = algo(policy, venv, seed=request["seed"], device="cpu", **settings)
    model.learn(request["total_steps"], callback=Progress())
    games = _environments(request, 1, atari)
    if normalise:
        games = VecNormalize(games, training=False, norm_reward=False)
        games.obs_rms = venv.obs_rms
    mean, _ = evaluate_policy(model, games, n_eval_episodes=request["episodes"])
    write_games(request, float(mean))  # type: ignore[arg-type]


def _environments(request: Request, count: int, atari: bool) -> Any:
    """Returns a vector environment in this process, the fastest kind for light tasks."""
    from stable_baselines3.common.env_util import make_atari_env, make_vec_env
    from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack

    if not atari:
        return make_vec_env(request["task"], count, seed=request["seed"], vec_env_cls=DummyVecEnv)
    import ale_py
    import gymnasium

    gymnasium.register_envs(ale_py)
    options = {"frameskip": 1, "repeat_action_probability": 0.0}
    return VecFrameStack(make_atari_env(request["task"], count, seed=request["seed"], env_kwargs=options), 4)
