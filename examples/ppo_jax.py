"""PPO in JAX: environment, policy and learning in one compiled function.

`xla()` makes a pool's step a function that JAX compiles into its loop and calls in the program's order, so that a
rollout and the update after it are one call from Python. CartPole-v1 reaches 475 in about 250 thousand steps.

    python examples/ppo_jax.py [--total-steps 500000]
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro

import headrace


@dataclass(frozen=True)
class Args:
    """PPO on a task with a flat observation and a discrete action."""

    task: str = "CartPole-v1"
    """task to learn"""
    total_steps: int = 500_000
    """agent steps, all environments together"""
    num_envs: int = 64
    """N: environments"""
    num_steps: int = 32
    """T: steps of each environment in a rollout"""
    learning_rate: float = 2e-3
    gamma: float = 0.98
    gae_lambda: float = 0.95
    clip: float = 0.2
    epochs: int = 8
    """gradient steps on a rollout, each over all of it"""
    seed: int = 1


def layers(key: Any, *sizes: int) -> list[tuple[Any, Any]]:
    pairs = zip(jax.random.split(key, len(sizes) - 1), pairwise(sizes), strict=True)
    return [(jax.random.normal(k, pair) * pair[0] ** -0.5, jnp.zeros(pair[1])) for k, pair in pairs]


def mlp(net: list[tuple[Any, Any]], x: Any) -> Any:
    *hidden, (weight, bias) = net
    for w, b in hidden:
        x = jnp.tanh(x @ w + b)
    return x @ weight + bias


def rollout(args: Args, step: Any, params: Any, carried: Any) -> tuple[Any, dict[str, Any]]:
    """T steps of all environments: what goes on to the next rollout, and arrays [T, N, …]."""

    def one(carried: Any, _: Any) -> tuple[Any, dict[str, Any]]:
        handle, obs, over, key = carried
        key, draw = jax.random.split(key)
        log_probs = jax.nn.log_softmax(mlp(params["actor"], obs))
        action = jax.random.categorical(draw, log_probs).astype(jnp.int32)
        handle, (after, reward, terminated, truncated, _info) = step(handle, action)
        # the step after an episode's end ignores its action and begins the next: nothing is learnt from it
        seen = {"obs": obs, "action": action, "log_prob": chosen(log_probs, action), "counts": ~over}
        over = terminated | truncated
        told = {"reward": reward, "terminated": terminated, "over": over, "after": after}
        return (handle, after, over, key), seen | told

    return jax.lax.scan(one, carried, None, args.num_steps)


def chosen(log_probs: Any, action: Any) -> Any:
    return jnp.take_along_axis(log_probs, action[..., None], -1)[..., 0]


def advantages(critic: Any, args: Args, seen: dict[str, Any]) -> tuple[Any, Any]:
    """Generalised advantage estimates, and what the critic shall learn, [T, N] both."""
    value, after = mlp(critic, seen["obs"])[..., 0], mlp(critic, seen["after"])[..., 0]
    delta = seen["reward"] + args.gamma * ~seen["terminated"] * after - value

    def back(advantage: Any, t: Any) -> tuple[Any, Any]:
        advantage = t["delta"] + args.gamma * args.gae_lambda * ~t["over"] * advantage
        return advantage, advantage

    _, advantage = jax.lax.scan(back, jnp.zeros_like(delta[0]), {"delta": delta, "over": seen["over"]}, reverse=True)
    return advantage, advantage + value


def loss(params: Any, args: Args, seen: dict[str, Any], advantage: Any, target: Any) -> Any:
    log_prob = chosen(jax.nn.log_softmax(mlp(params["actor"], seen["obs"])), seen["action"])
    ratio = jnp.exp(log_prob - seen["log_prob"])
    gain = jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - args.clip, 1 + args.clip) * advantage)
    error = (mlp(params["critic"], seen["obs"])[..., 0] - target) ** 2
    return ((error / 2 - gain) * seen["counts"]).sum() / seen["counts"].sum()


def adam(gradient: Any, params: Any, moments: Any, rate: float) -> tuple[Any, Any]:
    first, second, count = moments[0], moments[1], moments[2] + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
    second = jax.tree.map(lambda m, g: 0.999 * m + 0.001 * g * g, second, gradient)
    rate = rate * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
    params = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-5), params, first, second)
    return params, (first, second, count)


def main() -> None:
    args = tyro.cli(Args)
    updates = args.total_steps // (args.num_envs * args.num_steps)
    env: Any = headrace.make_gym(args.task, num_envs=args.num_envs, seed=args.seed)
    handle, _recv, _send, step = env.xla()
    width, choices = env.observation_space.shape[0], int(env.action_space.n)
    key, actor, critic = jax.random.split(jax.random.key(args.seed), 3)
    params = {"actor": layers(actor, width, 64, 64, choices), "critic": layers(critic, width, 64, 64, 1)}
    nothing = jax.tree.map(jnp.zeros_like, params)
    moments = (nothing, nothing, jnp.zeros((), jnp.int32))

    @jax.jit
    def iterate(params: Any, moments: Any, carried: Any) -> Any:
        carried, seen = rollout(args, step, params, carried)
        advantage, target = advantages(params["critic"], args, seen)
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)

        def improve(learnt: Any, _: Any) -> tuple[Any, None]:
            params, moments = learnt
            gradient = jax.grad(loss)(params, args, seen, advantage, target)
            rate = args.learning_rate * (1 - moments[2] / args.epochs / updates)
            return adam(gradient, params, moments, rate), None

        (params, moments), _ = jax.lax.scan(improve, (params, moments), None, args.epochs)
        return params, moments, carried, seen["reward"], seen["over"]

    carried = (handle, jnp.asarray(env.reset()[0]), jnp.zeros(args.num_envs, bool), key)
    running, finished = np.zeros(args.num_envs), [0.0]
    for update in range(1, updates + 1):
        params, moments, carried, reward, over = iterate(params, moments, carried)
        for earned, ended in zip(np.asarray(reward), np.asarray(over), strict=True):
            running += earned
            finished += running[ended].tolist()
            running[ended] = 0
        if update % 50 == 0 or update == updates:
            print(f"{update * args.num_envs * args.num_steps:>8} steps, mean return {np.mean(finished[-100:]):.1f}")
    env.close()


if __name__ == "__main__":
    main()
