"""Every benchmark, in the order of the pages: what it measures, beside whom, and why marks are missed.

`run_all.py`, `table.py` and the list in `README.md` read it, and nothing else names all benchmarks. A script without an
entry is listed by the first sentence of its docstring; an entry brings it into `make bench`, and says the rest.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple


class Line(NamedTuple):
    """A line of the README's table of speed.

    Attributes:
        what: is measured, as a reader would say it; empty where it is as in the line before.
        peer: as the benchmark's file names it; of `sac_learning`, which of our runs is compared.
        called: as the table does.
    """

    what: str
    peer: str
    called: str


class Benchmark(NamedTuple):
    """A script.

    Attributes:
        name: of the script, and of its file of results.
        what: it measures.
        beside: whom or what.
        quick: arguments with which it takes seconds; None where `make bench` leaves it out.
        short: one sentence for each mark that it misses, and why.
        lines: of the README's table.
    """

    name: str
    what: str
    beside: str = ""
    quick: str | None = None
    short: str = ""
    lines: tuple[Line, ...] = ()


SB3 = "stable-baselines3"
CATALOG = (
    Benchmark(
        "atari_pool",
        "Pong and Breakout, synchronous and asynchronous",
        "EnvPool, ale-py's vector environment; limit: the bare emulator on as many threads",
        "--repeats 2 --seconds 0.5",
        "Pong stays under 0.92 of the bare emulator, whose frames cost half of what they did: what the pool adds to a "
        "step counts twice.",
        (
            Line("Atari, 16 or 32 environments", "envpool", "EnvPool"),
            Line("", "ale-py vector", "ale-py's vector environment"),
        ),
    ),
    Benchmark(
        "atari_emulator",
        "one Atari emulator on one thread, without a pool, 57 games, processor time",
        "the emulator's own processor and picture chip",
        "--repeats 2 --seconds 0.05 --games pong breakout",
    ),
    Benchmark(
        "atari_instructions",
        "instructions of a frame under valgrind, ten games; memory of an environment; what a build takes",
        "the emulator's own processor and picture chip",
    ),
    Benchmark("atari_equality", "frames in which both machines must be equal, of all games; no speed"),
    Benchmark(
        "vizdoom_pool",
        "ViZDoom's Basic and Deathmatch, pictures in colour",
        "EnvPool, whose engine is an older one",
        "--repeats 2 --seconds 0.5 --tasks Basic-v1",
        lines=(Line("ViZDoom, two tasks, 8 environments", "envpool", "EnvPool"),),
    ),
    Benchmark(
        "cartpole_pool",
        "CartPole-v1 with 1 to 1,024 environments",
        "EnvPool, Gymnasium's NumPy environment",
        "--repeats 2 --seconds 0.2",
        lines=(Line("CartPole, 1 to 1,024 environments", "envpool", "EnvPool"),),
    ),
    Benchmark(
        "mujoco_pool",
        "six robots with 8 to 1,024 environments, resets included; memory",
        "EnvPool; limit: MuJoCo alone, which replays the same states and actions in C++",
        "--repeats 2 --seconds 0.2 --tasks HalfCheetah-v5 --sizes 64 1024",
        "Humanoid's large pool is level with its small one (0.99), in turns that spread by 24 %.",
        (Line("MuJoCo, six robots, 8 to 1,024 environments", "envpool", "EnvPool"),),
    ),
    Benchmark(
        "mujoco_pixels",
        "robots that are seen in pictures",
        "a loop over MuJoCo's Python renderer",
        "--repeats 2 --seconds 0.2 --tasks CheetahRun-v1",
    ),
    Benchmark(
        "kernel_envs",
        "classic control and toy text with 1,024 environments, CartPole with 16,384",
        "EnvPool; limit: a CartPole loop in C (`cartpole_loop.c`)",
        "--repeats 2 --seconds 0.1",
        lines=(Line("Classic control and toy text, 1,024 environments", "envpool", "EnvPool"),),
    ),
    Benchmark(
        "minatar_pool",
        "two MinAtar games with 1,024 environments",
        "the package's Python environment",
        "--repeats 2 --seconds 0.2",
        "The package's Breakout is cheap, half a million steps/s a process, so 15 × two processes is not reached.",
        (Line("MinAtar, 1,024 environments", "minatar, 2 processes", "its Python package, 2 processes"),),
    ),
    Benchmark(
        "process_pool",
        "environments that are Python classes, in two processes",
        "Gymnasium's vector environments, stable-baselines3's, PufferLib's; limit: a plain loop a core",
        "--repeats 2 --seconds 0.2",
        "On two cores 25 × `AsyncVectorEnv` is what two plain loops would be at the most. "
        "`SyncVectorEnv` on CartPole misses its mark by 0.05. PufferLib's classes ran as the script's docstring says.",
        (
            Line("Python environments, 64 in processes", "gymnasium sync", "Gymnasium's `SyncVectorEnv`"),
            Line("", "gymnasium async", "Gymnasium's `AsyncVectorEnv`"),
        ),
    ),
    Benchmark(
        "caller_share",
        "process pools: two workers, by the clock and by processor time",
        "one worker, and a caller that steps the other share",
        "--repeats 1 --seconds 0.2",
        "The machine had other work, so only rows of processor time tell something. An environment in the calling "
        "process could not be ended when it hangs, nor outlived when it crashes.",
    ),
    Benchmark(
        "tag_pool",
        "Tag on the grid and in the plane, 5 to 1,000 agents",
        "WarpDrive's CPU classes; marks set beforehand",
        "--repeats 2 --seconds 0.2",
        lines=(Line("Tag, 5 to 1,000 agents", "WarpDrive's class", "WarpDrive's CPU classes"),),
    ),
    Benchmark(
        "ppo_speed",
        "PPO's whole loop on CartPole and Pong",
        "stable-baselines3, plain PyTorch over EnvPool",
        "--repeats 1 --seconds 0.5 --pong-envs 8",
        "With minibatches of 512 and 10 epochs 95 % of the time is learning, most of it the matrix products of two "
        "networks of 64 × 64 on one core.",
        (Line("PPO, the whole loop, on CartPole and Pong", SB3, SB3),),
    ),
    Benchmark(
        "sb3_training",
        "stable-baselines3's own PPO over our environments",
        "the same over its `DummyVecEnv` and `SubprocVecEnv`",
        "--repeats 1 --seconds 0.5",
    ),
    Benchmark(
        "seconds_to_return",
        "steps, updates, seconds and processor seconds until a return, for any task and preset",
        "other settings",
        "Pendulum-v1:ppo:-2000 --set total_steps=4000 --every 1000 --episodes 2",
    ),
    Benchmark(
        "ppo_learning",
        "seconds until four tasks are solved by PPO, three seeds",
        "stable-baselines3 with rl-baselines3-zoo's settings",
        "--seeds 1 --tasks CartPole-v1",
        lines=(Line("PPO, until one of four tasks is solved, each with its own presets", SB3, SB3),),
    ),
    Benchmark(
        "learning_settings",
        "agent steps until two tasks are solved with a recurrent network and by A2C",
        "PPO's settings",
        "--seeds 1 --cases gru --tasks CartPole-v1",
    ),
    Benchmark("async_ppo", "PPO with workers and V-trace", "the synchronous loop", "--quick"),
    Benchmark(
        "dqn_update",
        "DQN's update over Pong's images",
        "stable-baselines3",
        "--repeats 1 --seconds 0.5 --sizes 32",
        lines=(Line("DQN, one update over images", SB3, SB3),),
    ),
    Benchmark(
        "replay",
        "minibatches from a full replay, one thread",
        "stable-baselines3's buffer",
        "--repeats 1 --seconds 0.2 --steps 100000",
        lines=(Line("Minibatches from a replay", SB3, SB3),),
    ),
    Benchmark("learn_pong", "one agent learns Pong-v5 from -21"),
    Benchmark(
        "learn_fast",
        "how soon tasks are learnt: Pong and MinAtar by DQN's fast preset and PQN, MountainCar with a bonus",
    ),
    Benchmark("learn_doom", "one agent learns ViZDoom's D1Basic-v1"),
    Benchmark(
        "mujoco_learning",
        "PPO on HalfCheetah and Ant, a million steps, three seeds",
        "published figures",
        "--quick",
        "Of Ant's three seeds one is below stable-baselines3's and Tianshou's figures.",
    ),
    Benchmark(
        "sac_learning",
        "seconds until SAC has a return, five seeds, as `headrace train` and with equal settings",
        "stable-baselines3, our synchronous loop",
        "--seeds 1 --tasks Pendulum-v1 --steps 2000",
        lines=(
            Line("SAC on two tasks until a return, as `headrace train` does it", "headrace train", SB3),
            Line("SAC, the same, with equal settings", "equal", SB3),
        ),
    ),
    Benchmark(
        "final_returns",
        "SAC's and TD3's returns after equal numbers of steps",
        "stable-baselines3",
        "--cases 'Pendulum-v1 sac' --seeds 1 --steps 1500",
    ),
    Benchmark(
        "sac_update",
        "SAC's update alone; its share of the machine's matrix rate",
        "stable-baselines3; limit: the update's matrix products alone",
        "--quick",
        "On a processor without matrix units the update's products alone, on one thread, would be 2.2 × "
        "stable-baselines3's updates, under the 3.7 × wanted.",
        (Line("SAC, one update", SB3, SB3),),
    ),
    Benchmark(
        "fused_updates", "updates whose gradients are written by hand", "the losses' files in plain autograd", "--quick"
    ),
    Benchmark(
        "together",
        "SAC's sampling and updating at once",
        "each while the other rests; Spreeze, as published",
        "--tasks Pendulum-v1 --repeats 2 --seconds 0.5",
    ),
    Benchmark(
        "watching",
        "SAC's updates a second with evaluator, watched or not",
        "the same run while the evaluator rests",
        "--tasks Pendulum-v1 --repeats 2 --seconds 1",
    ),
    Benchmark("tuner", "what the tuner finds, and in how many seconds", "the best of a grid of 30 sizes", "--quick"),
    Benchmark(
        "batch_rule",
        "SAC's returns with larger minibatches by the tuner's rule",
        "the task's own minibatch",
        "--tasks Pendulum-v1 --seeds 1 --steps 1500 --times 1 4 --episodes 4",
    ),
    Benchmark(
        "worker_kills", "SAC whose workers are killed a hundred times", "the run left alone", "--kills 5 --steps 2000"
    ),
    Benchmark(
        "process_soak", "a thousand pools, in each of which a worker is killed", "nothing may be left", "--rounds 10"
    ),
    Benchmark(
        "torchrun_ranks",
        "PPO with two of torchrun's processes: speed, and returns on CartPole",
        "one process, all environments and whole minibatches",
        "--repeats 1 --steps 3000 --seeds 2 --learning-steps 8000",
        "Over six seeds the mean return of two processes is just below the 95 % interval of one's; the interval of "
        "their difference has 0 in it.",
    ),
    Benchmark(
        "torchrun_network", "torchrun over a link with delay and loss, and without the other machine; needs root"
    ),
    Benchmark(
        "tag_training",
        "A2C on Tag, the whole loop",
        "NumPy and plain PyTorch",
        "--quick",
        lines=(Line("A2C on Tag, the whole loop", "NumPy + PyTorch", "NumPy and plain PyTorch"),),
    ),
    Benchmark("tag_learning", "what is learnt on Tag, three seeds, with curves", "random play", "--quick"),
    Benchmark(
        "memory", "memory and threads over a thousand pools and millions of steps", "flat or not", "--scale 0.01"
    ),
    Benchmark("first_minutes", "imports, help, first steps in new processes, sizes of wheels", "marks", "--repeats 1"),
    Benchmark(
        "ray_sampling",
        "samplers on a local Ray cluster, a node each; what a step, an answer and an update cost",
        "samplers over shared memory",
    ),
    Benchmark(
        "ray_model", "a model, not a measurement: 2, 16 and 256 samplers on a cluster, simulated with those costs"
    ),
    Benchmark(
        "page",
        "the page of runs: how soon it answers, what it takes from training",
        "the page closed",
        short="CartPole's turns with the page open are at 0.988 of those with it closed, and spread by 5 %.",
    ),
    Benchmark(
        "checkouts",
        "runs of two checkouts in turns",
        "another checkout, of version 0.1 in the record",
        short="DQN's turns spread by 16 %; its update alone takes as long as before.",
    ),
    Benchmark("gpu_pool", "CartPole on a CUDA device (`make gpu-bench`)", "bytes that a plain copy moves"),
    Benchmark("gpu_tag", "Tag on a CUDA device", "the same copy; WarpDrive, as published"),
    Benchmark("gpu_training", "training on a CUDA device", "WarpDrive, as published"),
    Benchmark("gpu_mujoco", "robots on a CUDA device, over MuJoCo Warp"),
    Benchmark("kernel_overhead", "where the time of a CartPole step goes; prints only", "EnvPool, Gymnasium"),
    Benchmark("reading", "lines that run from a step to a gradient; no speed", "rsl_rl, single files"),
    Benchmark(
        "structure",
        "lines, imports and docstrings of `train/`; no speed",
        "another checkout",
        short="15 % fewer lines than in version 0.1 were wanted, and there are 60 % more: sweeps, seeds, plots, export "
        "and callbacks are new, settings say what they mean, and gradients by hand have their losses beside them.",
    ),
)
"""those with more to say than their own first sentence"""
OTHERS = {"catalog", "run_all", "table"}


def everything() -> tuple[Benchmark, ...]:
    """All benchmarks: those of the catalogue, then the other scripts of this folder."""
    known = {benchmark.name for benchmark in CATALOG} | OTHERS
    scripts = (path for path in sorted(Path(__file__).parent.glob("*.py")) if path.stem not in known)
    return CATALOG + tuple(Benchmark(path.stem, sentence(path)) for path in scripts if "__main__" in path.read_text())


def sentence(path: Path) -> str:
    """The first sentence of a script's docstring, as a cell of a table."""
    told = " ".join((ast.get_docstring(ast.parse(path.read_text())) or path.stem).split())
    return re.split(r"(?<=[.])\s|:\s", told)[0].rstrip(".").replace("|", "/")
