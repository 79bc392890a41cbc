"""Other libraries' updates of the Nature-CNN, for `pictures_update.py`.

stable-baselines3 makes its own; its DQN learns from one batch again and again, as ours does, so that no replay counts.
CleanRL is no library but files that train when they run: their updates are written here anew, operation by operation,
with PyTorch's layers over ``x / 255`` and its own optimisers.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hardware import versions

CLEANRL = "github.com/vwxyzjn/cleanrl at fe8d8a03: dqn_atari.py, ppo_atari.py, pqn_atari_envpool.py"
SIDE, FRAMES, UNITS = 84, 4, 512
Update = Callable[[], Any]


def named() -> str:
    """The libraries and their versions."""
    of = versions(("stable-baselines3", "torch"))
    return f"{', '.join(f'{name} {number}' for name, number in of.items())}; CleanRL: {CLEANRL}, written anew."


class Pictures(gym.Env[np.ndarray, np.int64]):
    """An environment that is never stepped: stable-baselines3 asks one for its spaces."""

    def __init__(self, actions: int):
        self.observation_space = gym.spaces.Box(0, 255, (FRAMES, SIDE, SIDE), np.uint8)
        self.action_space = gym.spaces.Discrete(actions)  # type: ignore[assignment]


def stable_baselines_dqn(rows: int, actions: int) -> Update:
    """Its update by targets that are not double."""
    import stable_baselines3
    from stable_baselines3.common.type_aliases import ReplayBufferSamples

    model = stable_baselines3.DQN("CnnPolicy", Pictures(actions), buffer_size=1, batch_size=rows, device="cpu")
    batch = _pictures(rows), torch.randint(actions, (rows, 1)), _pictures(rows), torch.zeros(rows, 1)
    samples = ReplayBufferSamples(*batch, torch.randn(rows, 1))
    model.replay_buffer.sample = lambda *_, **__: samples  # type: ignore[union-attr,method-assign]
    return lambda: _quiet(model).train(1, rows)


def stable_baselines_ppo(envs: int, steps: int, minibatch: int, actions: int) -> Update:
    """An epoch of its minibatches."""
    import stable_baselines3
    from stable_baselines3.common.vec_env import DummyVecEnv

    each: Any = [lambda: Pictures(actions)] * envs
    how: dict[str, Any] = {"n_steps": steps, "batch_size": minibatch, "n_epochs": 1, "ent_coef": 0.01}
    model = stable_baselines3.PPO("CnnPolicy", DummyVecEnv(each), device="cpu", **how)
    buffer = model.rollout_buffer
    buffer.observations[...] = np.random.randint(0, 256, buffer.observations.shape)
    buffer.actions[...] = np.random.randint(0, actions, buffer.actions.shape)
    for column in (buffer.log_probs, buffer.advantages, buffer.returns, buffer.values):
        column[...] = np.random.randn(*column.shape)
    buffer.full = True
    return lambda: _quiet(model).train()


def _quiet(model: Any) -> Any:
    if not hasattr(model, "_logger"):
        from stable_baselines3.common.logger import configure

        model.set_logger(configure(None, []))
    return model


def cleanrl_dqn(rows: int, actions: int) -> Update:
    """Its update by targets that are not double, with a squared error and whole gradients."""
    q, targets = (nn.Sequential(*trunk(), nn.Linear(UNITS, actions)) for _ in range(2))
    adam = torch.optim.Adam(q.parameters(), lr=1e-4)
    seen, following = _pictures(rows), _pictures(rows)
    chosen, rewards, dones = torch.randint(actions, (rows, 1)), torch.randn(rows, 1), torch.zeros(rows, 1)

    def update() -> None:
        with torch.no_grad():
            best = targets(following / 255.0).max(dim=1).values
            wanted = rewards.flatten() + 0.99 * best * (1 - dones.flatten())
        loss = F.mse_loss(wanted, q(seen / 255.0).gather(1, chosen).squeeze())
        adam.zero_grad()
        loss.backward()
        adam.step()

    return update


def cleanrl_ppo(rows: int, minibatch: int, actions: int) -> Update:
    """An epoch of its minibatches, from a rollout of floats."""
    features, policy, value = nn.Sequential(*trunk()), nn.Linear(UNITS, actions), nn.Linear(UNITS, 1)
    parameters = [each for part in (features, policy, value) for each in part.parameters()]
    adam = torch.optim.Adam(parameters, lr=2.5e-4, eps=1e-5)
    seen, chosen = _pictures(rows).float(), torch.randint(actions, (rows,)).float()
    log_probs, advantages, returns, values = torch.randn(4, rows)
    told: deque[Any] = deque(maxlen=2)  # the divergence and the share of clipped ratios

    def update(at: np.ndarray) -> None:
        hidden = features(seen[at] / 255.0)
        of_actions, found = torch.distributions.Categorical(logits=policy(hidden)), value(hidden).view(-1)
        log_ratio = of_actions.log_prob(chosen.long()[at]) - log_probs[at]
        ratio = log_ratio.exp()
        with torch.no_grad():
            told.extend([((ratio - 1) - log_ratio).mean(), ((ratio - 1.0).abs() > 0.1).float().mean().item()])
        gain = advantages[at]
        gain = (gain - gain.mean()) / (gain.std() + 1e-8)
        loss = torch.max(-gain * ratio, -gain * ratio.clamp(0.9, 1.1)).mean()
        clipped = values[at] + (found - values[at]).clamp(-0.1, 0.1)
        errors = torch.max((found - returns[at]) ** 2, (clipped - returns[at]) ** 2)
        loss = loss - 0.01 * of_actions.entropy().mean() + 0.5 * 0.5 * errors.mean()
        _step(adam, parameters, loss, 0.5)

    return lambda: _epoch(update, rows, minibatch)


def cleanrl_pqn(rows: int, minibatch: int, actions: int) -> Update:
    """An epoch of its minibatches with normalised layers, from a rollout of floats."""
    q = nn.Sequential(*trunk(normalised=True), nn.Linear(UNITS, actions))
    parameters = list(q.parameters())
    radam = torch.optim.RAdam(parameters, lr=2.5e-4)
    seen, chosen, returns = _pictures(rows).float(), torch.randint(actions, (rows,)).float(), torch.randn(rows)

    def update(at: np.ndarray) -> None:
        found = q(seen[at] / 255.0).gather(1, chosen[at].unsqueeze(-1).long()).squeeze()
        _step(radam, parameters, F.mse_loss(returns[at], found), 10.0)

    return lambda: _epoch(update, rows, minibatch)


def trunk(normalised: bool = False) -> list[nn.Module]:
    """The Nature-CNN's layers up to its units."""
    layers: list[nn.Module] = []
    for (inputs, outputs, length, stride), side in zip(
        ((FRAMES, 32, 8, 4), (32, 64, 4, 2), (64, 64, 3, 1)), (20, 9, 7), strict=True
    ):
        norm = [nn.LayerNorm([outputs, side, side])] * normalised
        layers += [nn.Conv2d(inputs, outputs, length, stride), *norm, nn.ReLU()]
    return [*layers, nn.Flatten(), nn.Linear(64 * 7 * 7, UNITS), *[nn.LayerNorm(UNITS)] * normalised, nn.ReLU()]


def _pictures(rows: int) -> Tensor:
    return torch.randint(0, 256, (rows, FRAMES, SIDE, SIDE), dtype=torch.uint8)


def _epoch(update: Callable[[np.ndarray], None], rows: int, minibatch: int) -> None:
    order = np.random.permutation(rows)
    for begin in range(0, rows, minibatch):
        update(order[begin : begin + minibatch])


def _step(optimiser: torch.optim.Optimizer, parameters: list[nn.Parameter], loss: Tensor, norm: float) -> None:
    optimiser.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(parameters, norm)
    optimiser.step()


warnings.filterwarnings("ignore", module="stable_baselines3")
