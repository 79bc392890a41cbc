"""Every benchmark, in the order of the pages: how it is tried quickly, why marks are missed, and what the README shows.

`run_all.py`, `table.py` and the list in `README.md` read it, and nothing else names all benchmarks. A script without an
entry is listed all the same; an entry brings it into `make bench`.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple


class Line(NamedTuple):
    """A line of the README's table of speed.

    Attributes:
        what: is measured, as a reader would say it; empty where it is as in the line before.
        peer: as the benchmark's file names it; of `off_policy`, which of our runs is compared.
        called: as the table does.
    """

    what: str
    peer: str
    called: str


class Benchmark(NamedTuple):
    """A script, which the first line of its docstring describes.

    Attributes:
        name: of the script, and of its file of results.
        quick: arguments with which it takes seconds; None where `make bench` leaves it out.
        short: one sentence for each mark that it misses, and why.
        lines: of the README's table.
        together: the part of its cases' names, as a regular expression, that those in one row of the results share;
            empty where each has its own. All are in the file and the plot.
        page: of the documentation that has its figures, where the results have no table of them.
    """

    name: str
    quick: str | None = None
    short: str = ""
    lines: tuple[Line, ...] = ()
    together: str = ""
    page: str = ""


TRIED = "leaderboard.md#what-was-tried"
SB3, RAY = "stable-baselines3", "several-machines.md#cost"
SECTIONS = {
    "Environments": (
        Benchmark(
            "atari_pool",
            "--repeats 2 --seconds 0.5",
            short=(
                "Pong stays under 0.92 of the bare emulator, whose frames cost half of what they did: what the pool "
                "adds to a step counts twice. All 57 games (`--all-games`), synchronous, geometric means: 3.75 x "
                "EnvPool (2.62 to 5.69), 3.66 x ale-py's vector environment, 0.86 of the bare emulator."
            ),
            lines=(
                Line("Atari, 16 or 32 environments", "envpool", "EnvPool"),
                Line("", "ale-py vector", "ale-py's vector environment"),
            ),
            together=r"^\S+",
        ),
        Benchmark("atari_emulator", "--repeats 2 --seconds 0.05 --games pong breakout", together=r"^"),
        Benchmark("atari_equality", page="atari.md#equivalence-tests"),
        Benchmark(
            "vizdoom_pool",
            "--repeats 2 --seconds 0.5 --tasks Basic-v1",
            lines=(Line("ViZDoom, two tasks, 8 environments", "envpool", "EnvPool"),),
            together=r"^\S+",
        ),
        Benchmark(
            "mujoco_pool",
            "--repeats 2 --seconds 0.2 --tasks HalfCheetah-v5 --sizes 64 1024",
            short="Humanoid by PGS takes what MuJoCo's step takes (0.96), and EnvPool's MuJoCo is another; in lanes "
            "its turns with 64 environments spread by 71 %.",
            lines=(
                Line("MuJoCo, 13 tasks, 64 and 1,024 environments; the least is Humanoid by PGS", "envpool", "EnvPool"),
            ),
            together=r"^\S+( physics=lanes| async)?",
        ),
        Benchmark(
            "robots_pool",
            "--repeats 2 --seconds 0.2 --sizes 64",
            lines=(Line("Go1 of MuJoCo Playground, 64 environments", "envpool", "EnvPool"),),
        ),
        Benchmark("lanes", "--repeats 2 --seconds 0.05 --tasks Hopper-v5 WalkerWalk-v1", page="physics.md"),
        Benchmark("lanes_models", "--most 2 --collections MetaWorld", page="physics.md"),
        Benchmark("physics_returns", page="physics.md"),
        Benchmark(
            "kernel_envs",
            "--repeats 2 --seconds 0.1",
            lines=(
                Line("CartPole from 1 environment on, classic control and toy text with 1,024", "envpool", "EnvPool"),
            ),
            together=r"^(CartPole-v1)?",
        ),
        Benchmark(
            "minatar_pool",
            "--repeats 2 --seconds 0.2",
            short=("Seaquest goes through lists of up to forty swimmers, and draws ten channels: 320 ns of a thread."),
            lines=(Line("MinAtar, 1,024 environments", "minatar, 2 processes", "its Python package, 2 processes"),),
        ),
        Benchmark(
            "boards_pool",
            "--repeats 2 --seconds 0.2",
            lines=(
                Line("Connect Four and other boards, 1,024 environments", "envpool", "EnvPool"),
                Line("", "pgx", "pgx, compiled by XLA"),
            ),
        ),
        Benchmark(
            "craftax_pool",
            "--repeats 2 --seconds 0.2",
            short=("With resets, the package generates a world for each environment in every step."),
            lines=(
                Line(
                    "Craftax-Classic's symbolic task, 1,024 environments",
                    "craftax on JAX, no resets",
                    "its package on JAX, without new episodes",
                ),
            ),
        ),
        Benchmark(
            "minigrid_pool",
            "--repeats 2 --seconds 0.2",
            short=(
                "Beside EnvPool 1.2.7, which needs Python 3.12 and is faster than 1.2.5, and whose rates vary most. "
                "New levels, one in 56 steps of random actions, take half of GoToLocal's time."
            ),
            lines=(
                Line("MiniGrid's DoorKey and others, BabyAI's GoToLocal, 1,024 environments", "envpool", "EnvPool"),
                Line("", "gymnasium async", "Gymnasium's `AsyncVectorEnv`"),
            ),
        ),
        Benchmark("kept_results", "--repeats 2 --seconds 0.05 --most-bytes 10000000"),
        Benchmark(
            "box2d_pool",
            "--repeats 2 --seconds 0.2",
            short=(
                "Walkers that lie on the ground are solved contact by contact, so BipedalWalker is 18 to 19 × "
                "`AsyncVectorEnv`, not 20 ×."
            ),
            lines=(
                Line("LunarLander and BipedalWalker, 64 environments, and CarRacing, 16", "envpool", "EnvPool"),
                Line("", "gymnasium async", "Gymnasium's `AsyncVectorEnv`"),
                Line("LunarLander and BipedalWalker, one thread", "Box2D alone", "Box2D alone, in Gymnasium's worlds"),
            ),
        ),
        Benchmark(
            "process_pool",
            "--repeats 2 --seconds 0.2",
            short=(
                "On two cores 25 × `AsyncVectorEnv` is what two plain loops would be at the most; `SyncVectorEnv` on "
                "CartPole misses its mark by 0.05."
            ),
            lines=(
                Line("Python environments, 64 in processes", "gymnasium sync", "Gymnasium's `SyncVectorEnv`"),
                Line("", "gymnasium async", "Gymnasium's `AsyncVectorEnv`"),
            ),
            together=r"^0.1-10 ms|.+",
        ),
        Benchmark("caller_share", "--repeats 1 --seconds 0.2", page="architecture.md#processes"),
        Benchmark("many_threads", "--repeats 2 --seconds 0.1"),
        Benchmark(
            "scaling",
            "--seconds 0.1 --cases Atari kernels",
            short="Kernels miss 0.7 x 32: of a batch that takes one thread 1 to 3.5 ms, the calling thread checks and "
            "copies 65,536 actions for 0.02 to 0.07. So do processes, of which it wakes each, and PPO, which needs "
            "1,024 environments.",
        ),
        Benchmark(
            "tag_pool",
            "--repeats 2 --seconds 0.2",
            lines=(Line("Tag, 5 to 1,000 agents", "WarpDrive's class", "WarpDrive's CPU classes"),),
        ),
    ),
    "Training": (
        Benchmark(
            "ppo_speed",
            "--repeats 1 --seconds 0.5 --pong-envs 8",
            short=(
                "With minibatches of 512 and 10 epochs 95 % of the time is learning, most of it the matrix products "
                "of two networks of 64 × 64 on one core."
            ),
            lines=(Line("PPO, the whole loop, on CartPole and Pong", SB3, SB3),),
            together=r"^\S+",
        ),
        Benchmark("compiled_ppo", "--repeats 1 --seconds 0.5"),
        Benchmark(
            "pictures_update",
            "--repeats 1 --seconds 0.2",
            short=(
                "2.5 times torch's rate is two thirds of that of bare products. Convolutions have three quarters of it "
                "and more; the dense layer, Adam and the packing of weights have half."
            ),
        ),
        Benchmark("learner_peers", "--algos ppo --repeats 1 --rollouts 12"),
        Benchmark(
            "tag_training",
            "--repeats 2 --seconds 0.3 --replicas 512",
            lines=(Line("A2C on Tag, the whole loop", "NumPy + PyTorch", "NumPy and plain PyTorch"),),
        ),
        Benchmark(
            "dqn_update",
            "--repeats 1 --seconds 0.5 --sizes 32",
            lines=(Line("DQN, one update over images or numbers", SB3, SB3),),
            together=r"^\S+",
        ),
        Benchmark(
            "sac_update",
            "--repeats 2 --seconds 0.2 --batches 256 --threads 1",
            short=(
                "Updates are faster than torch's bare products of bfloat16 on a processor without matrix units, and "
                "reach nine tenths of those of float32: what 3.7 × lacks are faster products."
            ),
            lines=(Line("SAC, one update", SB3, SB3),),
            together=r"^batch \d+",
        ),
        Benchmark(
            "replay",
            "--repeats 1 --seconds 0.2 --steps 100000",
            lines=(Line("Minibatches from a replay", SB3, SB3),),
            together=r"^\w+",
        ),
        Benchmark("together", "--tasks Pendulum-v1 --repeats 2 --seconds 0.5", together=r"(\w+ \w+)/s$"),
        Benchmark(
            "checkouts",
            short="Others ran on the second core now and then; DQN's case was run by itself, which had to be longer.",
        ),
        Benchmark("gpu_pool"),
        Benchmark("gpu_tag"),
        Benchmark("gpu_training"),
        Benchmark("gpu_mujoco"),
    ),
    "What is learnt": (
        Benchmark(
            "ppo_learning",
            "--seeds 1 --tasks CartPole-v1",
            lines=(Line("PPO, until one of four tasks is solved, each with its own presets", SB3, SB3),),
        ),
        Benchmark("crossq_published", page=TRIED),
        Benchmark(
            "learning",
            "cartpole-pqn Pendulum-v1:ppo:-2000 --set total_steps=4000 --episodes 2",
            short="Of Ant's three seeds one is below stable-baselines3's and Tianshou's figures.",
        ),
        Benchmark(
            "off_policy",
            "--cases 'Pendulum-v1 sac until -200' 'Pendulum-v1 sac' --seeds 1 --steps 1500",
            lines=(
                Line("SAC on two tasks until a return, as `headrace train` does it", "headrace train", SB3),
                Line("SAC, the same, with equal settings", "equal", SB3),
            ),
        ),
        Benchmark("tag_learning", "--quick"),
        Benchmark(
            "connect_four",
            "--seconds 2 --games 2 --depths 1",
            short="After 40 million moves it is level with two moves of foresight, and has 0.31 against four.",
        ),
        Benchmark("boards_learning", "--tasks TicTacToe-v0 --seconds 1 --seeds 1 --games 4"),
        Benchmark("pixels_learning", "--seconds 5 --games 1"),
        Benchmark("pictures_curves", "--seeds 1 --steps 50000"),
        Benchmark("walkers", "--seeds 1 --steps 20000 --games 4"),
        Benchmark("goals", "--tasks FetchReach-v4 --seeds 1 --steps 3000"),
        Benchmark("crazyflie", "--simulator headrace --seeds 201 --steps 8192"),
        Benchmark("crazyflie_rltools"),
        Benchmark(
            "held_out",
            "--tasks LunarLanderContinuous-v3 --seconds 1 --games 1",
            short="Nobody learns CarRacing in this time; on highway both keep their lane. Racetrack and parking make "
            "some hundred steps a second.",
        ),
    ),
    "Runs that last, and several machines": (
        Benchmark("memory", "--scale 0.01"),
        Benchmark("process_soak", "--rounds 10"),
        Benchmark(
            "torchrun_ranks",
            "--repeats 1 --steps 3000 --seeds 2 --learning-steps 8000",
            short=(
                "PPO on CartPole, thirty seeds: two processes' mean return is below the 95 % interval of one's; the "
                "difference's interval has 0 in it. With the same chance both learn the same, as a test says."
            ),
        ),
        Benchmark("torchrun_network", page="several-machines.md"),
        Benchmark("ray_sampling", page=RAY),
    ),
    "First minutes, the page, the code": (
        Benchmark("first_minutes", "--repeats 1"),
        Benchmark(
            "page", short="CartPole's turns with the page open are at 0.988 of those with it closed, and spread by 5 %."
        ),
        Benchmark(
            "structure",
            short=(
                "15 % fewer lines than in version 0.1 were wanted, and there are twice as many: five algorithms, "
                "sweeps, seeds, plots, export, callbacks, torchrun, Ray and the leaderboard are new, settings say "
                "what they mean, and compiled updates have their losses beside them."
            ),
        ),
    ),
}
CATALOG = tuple(benchmark for section in SECTIONS.values() for benchmark in section)
OTHERS = {"catalog", "peer_marks", "run_all", "table"}


def sections() -> dict[str, tuple[Benchmark, ...]]:
    """All benchmarks: those of the catalogue, then the other scripts of this folder."""
    known = {benchmark.name for benchmark in CATALOG} | OTHERS
    paths = (path for path in sorted(Path(__file__).parent.glob("*.py")) if path.stem not in known)
    others = tuple(Benchmark(path.stem) for path in paths if "__main__" in path.read_text())
    return SECTIONS | ({"Others": others} if others else {})


def sentence(path: Path) -> str:
    """The first line of a script's docstring, as a cell of a table."""
    told = ast.get_docstring(ast.parse(path.read_text())) or path.stem
    return told.splitlines()[0].removesuffix(".").replace("|", "/")
