"""PPO's whole loop on CartPole beside programs that XLA compiles, in wall clock and in processor time.

64 environments, 128 steps, 4 epochs of minibatches of 2,048, two networks of 64 × 64: everything that training does,
for all. A plain PPO in JAX (`plain_jax_ppo.py`), stable-baselines3 and a plain PyTorch PPO over EnvPool take part;
PureJaxRL does where ``--purejaxrl`` names its folder ``purejaxrl/`` and what it imports is installed. Compilation is
measured apart. Processor time is that of all threads.

    python benchmarks/compiled_ppo.py [--purejaxrl FOLDER]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import torch
import tyro

from common import OURS, Args, Comparison, Contender, measure, repeating
from plain_jax_ppo import plain_jax_ppo
from plain_ppo import Settings, plain_ppo
from ppo_speed import ours, stable_baselines

SETTINGS = Settings(64, 128, 4, 2048)
PROGRAM = 10  # iterations of a compiled program
JAX, PURE = "plain JAX", "PureJaxRL"
CLOCKS = {"wall clock": time.perf_counter, "processor time": time.process_time}


@dataclass
class CompiledArgs(Args):
    """PPO's whole loop beside compiled programs."""

    seconds: float = 4.0
    """length of one turn"""
    purejaxrl: str = ""
    """PureJaxRL's folder; not part of it where empty"""


def compiled(program: Callable[[Any], Any], first: Any) -> tuple[float, Callable[[Any], Any]]:
    """Returns the seconds that compilation took, and the compiled program, which waits for its results."""
    start = time.perf_counter()
    run = jax.jit(program).lower(first).compile()
    return time.perf_counter() - start, lambda given: jax.block_until_ready(run(given))


def plain(s: Settings) -> tuple[float, Callable[[], None]]:
    """Returns the seconds of compilation of the plain program, and a call that goes on from where it was."""
    program, state = plain_jax_ppo(s, PROGRAM)
    seconds, run = compiled(program, state)

    def call() -> None:
        nonlocal state
        state = run(state)

    return seconds, call


def purejaxrl(folder: str, s: Settings) -> tuple[float, Callable[[], Any]]:
    """The same of PureJaxRL, whose program begins anew with each call."""
    sys.path.insert(0, folder)
    import ppo  # type: ignore[import-not-found]

    size = s.num_envs * s.num_steps
    config = {
        "ENV_NAME": "CartPole-v1",
        "NUM_ENVS": s.num_envs,
        "NUM_STEPS": s.num_steps,
        "TOTAL_TIMESTEPS": PROGRAM * size,
        "UPDATE_EPOCHS": s.epochs,
        "NUM_MINIBATCHES": size // s.minibatch_size,
        "LR": s.learning_rate,
        "GAMMA": s.gamma,
        "GAE_LAMBDA": s.gae_lambda,
        "CLIP_EPS": s.clip_range,
        "ENT_COEF": s.entropy_coef,
        "VF_COEF": 1.0,
        "MAX_GRAD_NORM": s.max_grad_norm,
        "ACTIVATION": "tanh",
        "ANNEAL_LR": False,
        "DEBUG": False,
    }
    key = jax.random.PRNGKey(1)
    seconds, run = compiled(ppo.make_train(config), key)
    return seconds, lambda: run(key)


def cases(args: CompiledArgs, details: dict[str, Any]) -> Iterator[Comparison]:
    """One for each clock."""
    size = SETTINGS.num_envs * SETTINGS.num_steps
    programs: dict[str, tuple[float, Callable[[], Any]]] = {JAX: plain(SETTINGS)}
    if args.purejaxrl:
        programs[PURE] = purejaxrl(args.purejaxrl, SETTINGS)
    details["seconds of compilation"] = {name: round(seconds, 1) for name, (seconds, _) in programs.items()}
    with tempfile.TemporaryDirectory() as folder:
        trainer, _ = ours("CartPole-v1", SETTINGS, Path(folder) / "run")
        for label, clock in CLOCKS.items():
            runs: dict[str, Contender] = {OURS: repeating(trainer.iterate, size, clock=clock)}
            runs |= {name: repeating(call, PROGRAM * size, clock=clock) for name, (_, call) in programs.items()}
            if clock is time.perf_counter:
                runs["stable-baselines3"] = stable_baselines("CartPole-v1", SETTINGS, atari=False)
                runs["plain PyTorch + EnvPool"] = plain_ppo("CartPole-v1", SETTINGS)
            unit = "steps/s" if clock is time.perf_counter else "steps/s of processor time"
            wanted = dict.fromkeys(programs, 1.2)
            yield Comparison(f"CartPole-v1, {label}", runs.pop(OURS), runs, wanted=wanted, unit=unit)
        trainer.close()


def main() -> None:
    args = tyro.cli(CompiledArgs)
    torch.set_num_threads(1)
    details: dict[str, Any] = {}
    measure("compiled_ppo", "PPO's whole loop beside compiled programs", cases(args, details), args, details)


if __name__ == "__main__":
    main()
