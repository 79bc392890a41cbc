"""PPO on CartPole as one program that XLA compiles: plain JAX, no library over it. The peer of `compiled_ppo.py`.

The same algorithm, network and settings as `plain_ppo.py`; the environments are arrays in the same program, so that
neither Python nor a copy lies between a step and an update.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from plain_ppo import Settings

HIDDEN, LONGEST = 64, 500  # units of a layer; steps of an episode
OBS, ACTIONS = 4, 2


def plain_jax_ppo(s: Settings, iterations: int) -> tuple[Callable[[Any], Any], Any]:
    """Returns a function state → state that makes so many iterations, not yet compiled, and the first state."""
    keys = jax.random.split(jax.random.key(1), 4)
    networks = {"actor": _tower(keys[0], ACTIONS, 0.01), "critic": _tower(keys[1], 1, 1.0)}
    zeros = jax.tree.map(jnp.zeros_like, networks)
    envs = _fresh(keys[2], s.num_envs), jnp.zeros(s.num_envs, jnp.int32)
    first = networks, (zeros, zeros, jnp.zeros(())), envs, keys[3]

    def iterate(state: Any, _: None) -> tuple[Any, None]:
        networks, adam, envs, key = state
        key, acting, learning = jax.random.split(key, 3)
        envs, rollout = lax.scan(lambda e, k: _act(networks, e, k), envs, jax.random.split(acting, s.num_steps))
        data = _advantages(rollout, _apply(networks["critic"], envs[0])[..., 0], s)
        networks, adam = _learn(networks, adam, data, learning, s)
        return (networks, adam, envs, key), None

    return lambda state: lax.scan(iterate, state, None, iterations)[0], first


def _tower(key: Any, outputs: int, gain: float) -> list[tuple[Any, Any]]:
    sizes, gains = (OBS, HIDDEN, HIDDEN, outputs), (2**0.5, 2**0.5, gain)
    keys = jax.random.split(key, len(gains))
    weights = [
        jax.nn.initializers.orthogonal(g)(k, sizes[i : i + 2]) for i, (k, g) in enumerate(zip(keys, gains, strict=True))
    ]
    return [(weight, jnp.zeros(weight.shape[1])) for weight in weights]


def _apply(tower: list[tuple[Any, Any]], x: Any) -> Any:
    for weight, bias in tower[:-1]:
        x = jnp.tanh(x @ weight + bias)
    weight, bias = tower[-1]
    return x @ weight + bias


def _fresh(key: Any, count: int) -> Any:
    return jax.random.uniform(key, (count, OBS), minval=-0.05, maxval=0.05)


def _act(networks: Any, envs: tuple[Any, Any], key: Any) -> tuple[tuple[Any, Any], dict[str, Any]]:
    """One step of all environments: Gymnasium's CartPole, whose ended episodes begin anew at once."""
    obs, lived = envs
    sampling, resetting = jax.random.split(key)
    logits = _apply(networks["actor"], obs)
    actions = jax.random.categorical(sampling, logits)
    _, speed, angle, turning = obs.T
    force = jnp.where(actions == 1, 10.0, -10.0)
    pushed = (force + 0.05 * turning**2 * jnp.sin(angle)) / 1.1
    falling = (9.8 * jnp.sin(angle) - jnp.cos(angle) * pushed) / (0.5 * (4 / 3 - 0.1 * jnp.cos(angle) ** 2 / 1.1))
    gained = pushed - 0.05 * falling * jnp.cos(angle) / 1.1
    after = obs + 0.02 * jnp.stack([speed, gained, turning, falling], -1)
    done = (jnp.abs(after[:, 0]) > 2.4) | (jnp.abs(after[:, 2]) > 0.2094395102) | (lived + 1 >= LONGEST)
    rollout = {
        "obs": obs,
        "actions": actions,
        "log_probs": _log_prob(logits, actions),
        "values": _apply(networks["critic"], obs)[..., 0],
        "rewards": jnp.ones(len(obs)),
        "done": done,
    }
    after = jnp.where(done[:, None], _fresh(resetting, len(obs)), after)
    return (after, jnp.where(done, 0, lived + 1)), rollout


def _log_prob(logits: Any, actions: Any) -> Any:
    return jnp.take_along_axis(jax.nn.log_softmax(logits), actions[..., None], -1)[..., 0]


def _advantages(rollout: dict[str, Any], last: Any, s: Settings) -> dict[str, Any]:
    def back(carried: tuple[Any, Any], row: dict[str, Any]) -> tuple[tuple[Any, Any], Any]:
        advantage, after = carried
        alive = 1.0 - row["done"]
        delta = row["rewards"] + s.gamma * after * alive - row["values"]
        advantage = delta + s.gamma * s.gae_lambda * alive * advantage
        return (advantage, row["values"]), advantage

    _, advantages = lax.scan(back, (jnp.zeros_like(last), last), rollout, reverse=True)
    columns = {name: rollout[name] for name in ("obs", "actions", "log_probs")}
    columns |= {"advantages": advantages, "returns": advantages + rollout["values"]}
    return jax.tree.map(lambda column: column.reshape(-1, *column.shape[2:]), columns)


def _learn(networks: Any, adam: Any, data: dict[str, Any], key: Any, s: Settings) -> tuple[Any, Any]:
    size = s.num_envs * s.num_steps

    def update(carried: tuple[Any, Any], rows: Any) -> tuple[tuple[Any, Any], None]:
        networks, adam = carried
        gradients = jax.grad(_loss)(networks, jax.tree.map(lambda column: column[rows], data), s)
        return _adam(networks, adam, gradients, s), None

    orders = jax.vmap(lambda k: jax.random.permutation(k, size))(jax.random.split(key, s.epochs))
    return lax.scan(update, (networks, adam), orders.reshape(-1, s.minibatch_size))[0]


def _loss(networks: Any, batch: dict[str, Any], s: Settings) -> Any:
    logits = _apply(networks["actor"], batch["obs"])
    ratio = jnp.exp(_log_prob(logits, batch["actions"]) - batch["log_probs"])
    gain = batch["advantages"]
    gain = (gain - gain.mean()) / (gain.std(ddof=1) + 1e-8)
    clipped = jnp.clip(ratio, 1 - s.clip_range, 1 + s.clip_range)
    policy_loss = jnp.maximum(-gain * ratio, -gain * clipped).mean()
    value_loss = 0.5 * jnp.square(_apply(networks["critic"], batch["obs"])[..., 0] - batch["returns"]).mean()
    logs = jax.nn.log_softmax(logits)
    return policy_loss + s.entropy_coef * (jnp.exp(logs) * logs).sum(-1).mean() + value_loss


def _adam(networks: Any, adam: Any, gradients: Any, s: Settings) -> tuple[Any, Any]:
    first, second, count = adam
    norm = jnp.sqrt(sum(jnp.square(g).sum() for g in jax.tree.leaves(gradients)))
    gradients = jax.tree.map(lambda g: g * jnp.minimum(1.0, s.max_grad_norm / (norm + 1e-6)), gradients)
    count = count + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)

    def stepped(p: Any, m: Any, v: Any) -> Any:
        return p - s.learning_rate * (m / (1 - 0.9**count)) / (jnp.sqrt(v / (1 - 0.999**count)) + 1e-5)

    return jax.tree.map(stepped, networks, first, second), (first, second, count)
