"""A program for EnvPool, unchanged but for its first import.

Plays some steps of Atari twice: synchronously, where all environments wait for each
other, and asynchronously, where each batch is whoever was done first.

    python examples/envpool_style.py
"""

import argparse
import time

import numpy as np

import headrace as envpool


def synchronous(task: str, num_envs: int, steps: int) -> None:
    env = envpool.make(task, env_type="gymnasium", num_envs=num_envs, seed=0)
    obs, info = env.reset()
    returns, episodes = np.zeros(num_envs), 0
    start = time.perf_counter()
    for _ in range(steps):
        action = np.random.randint(env.action_space.n, size=num_envs)
        obs, reward, terminated, truncated, info = env.step(action)
        returns[info["env_id"]] += reward
        episodes += int((terminated | truncated).sum())
    elapsed = time.perf_counter() - start
    print(f"synchronous:  {obs.shape} {obs.dtype}, {steps * num_envs / elapsed:,.0f} steps/s")
    print(f"              rewards {returns}, {episodes} episodes ended")
    env.close()


def asynchronous(task: str, num_envs: int, batch_size: int, steps: int) -> None:
    env = envpool.make_gym(task, num_envs=num_envs, batch_size=batch_size, seed=0)
    env.async_reset()
    seen = np.zeros(num_envs, int)
    start = time.perf_counter()
    for _ in range(steps):
        obs, _reward, _terminated, _truncated, info = env.recv()
        env_id = info["env_id"]
        seen[env_id] += 1
        env.send(np.random.randint(env.action_space.n, size=batch_size), env_id)
    elapsed = time.perf_counter() - start
    print(f"asynchronous: {obs.shape} {obs.dtype}, {steps * batch_size / elapsed:,.0f} steps/s, seen {seen}")
    env.close()


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()  # answers --help
    synchronous("Pong-v5", num_envs=8, steps=100)
    asynchronous("Pong-v5", num_envs=8, batch_size=4, steps=200)
