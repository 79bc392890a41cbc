"""A Crazyflie that learns to hover beside RLtools' own training: both commands in turns, and where their agents end.

RLtools (rl-tools/rl-tools, v2.2.0) trains by SAC in a program of its zoo, compiled as the zoo's README says, with
OpenBLAS and the flags of its CMakeLists.txt. It has two settings. Those of `l2f/sac.h` are for the craft, the rewards
and the initial states of `Crazyflie-v0`; the program includes those of `l2f/sac_tiny.h`, which are for being fast: a
craft of 25 g whose rotors have a simpler thrust and one lag, commanded 50 times a second. For the former, one line of a
copy of the program is another. Each agent flies 128 times in l2f for 5 seconds, with the craft that it has learnt on,
and without exploration. Seconds of training are the program's own; the whole process evaluates 100 episodes, too.

    git clone --branch v2.2.0 https://github.com/rl-tools/rl-tools
    apt install g++ libopenblas-dev && pip install l2f==2.0.18
    python benchmarks/crazyflie_rltools.py rl-tools [--seeds 211 212 213 214 215] [--peer-steps 400000]
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Annotated, Any

import numpy as np
import tyro

from common import RESULTS, heading, tell
from crazyflie import ACTIONS, ALLOWED, FLIGHTS, STEPS, TASK, Policy, fly, in_process, policy_of, train

NAME = "crazyflie_rltools"
OURS, SAME, TINY = "Headrace", "RLtools, sac.h", "RLtools, sac_tiny.h"
FLAGS = ("-std=c++17", "-O3", "-ffast-math", "-march=native")  # of RLtools' CMakeLists.txt
DEFINED = ("BACKEND_ENABLE_OPENBLAS", "RL_ZOO_ALGORITHM_SAC", "RL_ZOO_ENVIRONMENT_L2F", "RL_ZOO_BENCHMARK")
LINE = '#include "l2f/sac_tiny.h"'
OTHER = '#include "l2f/sac.h"\n#include "l2f/environment_tiny.h"'  # the environment is for TD3's settings
LIMIT = re.compile(r"(?<= STEP_LIMIT = )\d+(?=;)")  # and not EPISODE_STEP_LIMIT
TOLD = re.compile(r"Time: ([\d.]+)s.*Step: (\d+)/.*Mean return: (\S+) Mean episode length: (\S+)", re.DOTALL)
NUMBERS = re.compile(r"float memory\[\] = \{([^}]*)\}")
RATE, TINY_RATE = 100, 50  # commands a second
LOST = 1.0  # m
ENVS = {SAME: 1, TINY: 8}  # in a step, as the program counts them
OWN = ("own return", "own episodes")  # of the program's evaluation: means of returns, and of lengths, at most 500


@dataclass(frozen=True)
class RLtoolsArgs:
    """Training of a craft that hovers, by Headrace and by RLtools."""

    rltools: Annotated[Path, tyro.conf.Positional]
    """checkout of RLtools, v2.2.0"""
    seeds: tuple[int, ...] = (211, 212, 213, 214, 215)
    """a run of each contender"""
    peer_steps: int | None = None
    """of RLtools' runs with sac.h; by default the file's own"""
    out: Path = RESULTS
    """folder for the JSON file"""


def missing(rltools: Path) -> str:
    """What there must be for this benchmark, and is not; nothing where all is there."""
    world = rltools / "src/rl/zoo/l2f/environment.h"
    if not world.exists():
        return f"{rltools} is no checkout of RLtools: git clone --branch v2.2.0 https://github.com/rl-tools/rl-tools"
    if "Langevin" not in world.read_text():
        return f"{rltools} is of another version, whose craft do not hover: git checkout v2.2.0"
    if not which("g++"):
        return "RLtools needs a compiler, g++"
    return "" if find_spec("l2f") else "agents fly in l2f: pip install l2f==2.0.18"


def compiled(rltools: Path, folder: Path, who: str, steps: int | None) -> tuple[Path, float]:
    """RLtools' program with one of its settings, made in a folder, and the seconds that this takes."""
    zoo, begun = (rltools / "src/rl/zoo").resolve(), time.perf_counter()
    source, program = folder / "zoo.cpp", folder / "zoo"
    (folder / "l2f").mkdir(parents=True)
    text = (zoo / "zoo.cpp").read_text()
    source.write_text(text.replace(LINE, OTHER) if who == SAME else text)
    if steps is not None:
        (folder / "l2f/sac.h").write_text(LIMIT.sub(str(steps), (zoo / "l2f/sac.h").read_text()))
    found = [f"-I{path}" for path in (rltools.resolve() / "include", zoo, zoo / "l2f")]
    defined = [f"-DRL_TOOLS_{name}" for name in DEFINED]
    command = ["g++", *FLAGS, *found, *defined, source, zoo / "zoo_cli.cpp", "-o", program, "-lopenblas"]
    subprocess.run(command, check=True)
    return program, round(time.perf_counter() - begun, 1)


def train_theirs(program: Path, who: str, seed: int, folder: Path) -> tuple[dict[str, float], Policy]:
    """What RLtools' training takes, and its last weights as a function from l2f's observations [N, 82]."""
    folder.mkdir()
    one = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # as tools/run_zoo.sh does
    took, printed = in_process([program, str(seed)], cwd=folder, env=one, stderr=subprocess.STDOUT)
    told = TOLD.search(printed)
    assert told, printed
    seconds, steps, *own = (float(number) for number in told.groups())
    (checkpoint,) = folder.rglob("checkpoint.h")
    told_of = {"steps": int(steps) * ENVS[who], "seconds": round(seconds, 1), **took}
    return told_of | dict(zip(OWN, (round(value, 1) for value in own), strict=True)), actor_of(checkpoint)


def actor_of(checkpoint: Path) -> Policy:
    """A perceptron that RLtools has saved as C++ code, with an example, by which it is checked."""
    arrays = [
        np.array([float.fromhex(number.strip().removesuffix("f")) for number in numbers.split(",")], np.float32)
        for numbers in NUMBERS.findall(checkpoint.read_text())
    ]
    *arrays, inputs, outputs = arrays
    layers = [(w.reshape(len(b), -1).T, b) for w, b in zip(arrays[::2], arrays[1::2], strict=True)]
    seen = len(layers[0][0])

    def act(obs: np.ndarray) -> np.ndarray:
        """RLtools' fast tanh is x (27 + x\N{SUPERSCRIPT TWO}) / (27 + 9 x\N{SUPERSCRIPT TWO}) within 3."""
        x = obs[:, :seen]
        for weights, bias in layers[:-1]:
            x = np.clip(x @ weights + bias, -3, 3)
            x = x * (27 + x**2) / (27 + 9 * x**2)
        weights, bias = layers[-1]
        return np.tanh(x @ weights + bias)[:, :ACTIONS].astype(np.float32)

    np.testing.assert_allclose(act(inputs.reshape(-1, seen)), outputs.reshape(-1, ACTIONS), atol=1e-4)
    return act


def tiny(known: dict[str, Any]) -> None:
    """Makes l2f's craft the one of l2f/environment_tiny.h."""
    known["dynamics"] |= {
        "mass": 0.025,
        "rotor_thrust_coefficients": [[0.0, 0.0, 0.1302]] * ACTIONS,
        "rotor_time_constants_rising": [0.072] * ACTIONS,
        "rotor_time_constants_falling": [0.072] * ACTIONS,
    }
    known["integration"]["dt"] = 1 / TINY_RATE


def judged(apart: np.ndarray) -> dict[str, float]:
    """What a row says of distances from the target, m [flights]; a mean would tell of those that are lost alone."""
    median = round(float(np.median(apart)), 3)
    return {"median, m": median, f"within {ALLOWED} m": int((apart < ALLOWED).sum()), "lost": int((apart > LOST).sum())}


def main() -> None:
    args = tyro.cli(RLtoolsArgs, description=__doc__)
    if lacking := missing(args.rltools):
        sys.exit(lacking)
    rows: list[dict[str, Any]] = []
    contenders = (OURS, SAME, TINY)
    with tempfile.TemporaryDirectory() as made:
        programs = {who: compiled(args.rltools, Path(made) / f"zoo-{ENVS[who]}", who, args.peer_steps) for who in ENVS}
        for turn, seed in enumerate(args.seeds):
            for who in contenders if turn % 2 == 0 else contenders[::-1]:
                run = Path(made) / f"{contenders.index(who)}-{seed}"
                if who == OURS:
                    took = train(seed, run) | dict.fromkeys(OWN)
                    apart = fly(policy_of(run))
                else:
                    took, policy = train_theirs(programs[who][0], who, seed, run)
                    apart = fly(policy, change=tiny, steps=STEPS * TINY_RATE // RATE) if who == TINY else fly(policy)
                rows.append({"by": who, "seed": seed, **took, **judged(apart)})
                print(rows[-1], flush=True)
    rows.sort(key=lambda row: contenders.index(row["by"]))
    title = f"{TASK} beside RLtools, whose sac_tiny.h has a simpler craft: {FLIGHTS} flights of each agent, after 5 s"
    compiling = " and ".join(f"{seconds:.0f}" for _, seconds in programs.values())
    note = (
        f"The commands are `headrace train {TASK} --seed=SEED --quiet` and, after compiling for {compiling} s, "
        f"`OPENBLAS_NUM_THREADS=1 zoo SEED`. A flight is lost that ends beyond {LOST:g} m."
    )
    settings = {"flights": FLIGHTS, "seconds": 5, "peer_steps": args.peer_steps, "flags": FLAGS, "defined": DEFINED}
    tell(args.out, heading(NAME, title) | {"settings": settings, "note": note, "rows": rows})


if __name__ == "__main__":
    main()
