"""Ten tasks that no recipe names: `headrace train TASK` beside stable-baselines3's defaults, with equal seconds.

Each trains for so many seconds in a process of its own, one after the other, on the same cores; neither imports nor the
games that judge count. Ours has no option. Stable-baselines3 has PPO for discrete and SAC for continuous actions, the
policy that fits the observations, and otherwise its defaults. Both are judged by the same games of Gymnasium's
environment, by the most likely actions; ours uses action masks where an environment gives them. Stable-baselines3 knows
no texts, so its environments lack them, and has no CNN for the smallest pictures, which it gets as a vector.

    python benchmarks/held_out.py [--tasks Taxi-v4 …]    # tasks that were measured before stay in the file
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import tyro

from common import OURS, RESULTS, earlier, heading, in_child, tell

PEER = "stable-baselines3"
ROOMS = "MiniGrid-Empty-Random-6x6-v0"
TASKS = {
    "Taxi-v4": "discrete, a category",
    "FrozenLake8x8-v1": "discrete, sparse",
    "highway_env:highway-fast-v0": "discrete",
    "minigrid:MiniGrid-DoorKey-5x5-v0": "discrete, a dictionary with a text, sparse",
    "held_out.py:rooms": "discrete, a dictionary with a picture and a text, sparse",
    "LunarLanderContinuous-v3": "continuous",
    "highway_env:parking-v0": "continuous, a dictionary with goals",
    "highway_env:racetrack-v1": "continuous, a grid",
    "gymnasium_robotics:PointMaze_UMaze-v3": "continuous, a dictionary with goals, sparse",
    "held_out.py:race": "continuous, pictures",
}
"""task → its kind"""
LEAST = 36  # pixels, below which stable-baselines3 has no CNN
LAPS = 250  # steps of a race, so that twenty games end soon
SEED = 7000  # of the first game that judges


@dataclass
class HeldOutArgs:
    """Ten held-out tasks beside stable-baselines3's defaults."""

    tasks: tuple[str, ...] = tuple(TASKS)
    """which tasks"""
    seconds: float = 60.0
    """of training"""
    games: int = 20
    """that judge"""
    seed: int = 1
    """of training"""
    sides: tuple[str, ...] = (OURS, PEER)
    """who trains; one that is left out keeps what the file has"""
    side: str = ""
    """train and judge one of them in this process, and print the result"""
    out: Path = RESULTS
    """folder for the JSON file"""


def rooms() -> gym.Env:
    """A room of MiniGrid in pixels: a picture uint8[56, 56, 3], a direction and a text."""
    from minigrid.wrappers import RGBImgPartialObsWrapper

    return RGBImgPartialObsWrapper(gym.make(f"minigrid:{ROOMS}"))  # type: ignore[arg-type]


def race() -> gym.Env:
    """`CarRacing-v3` of fewer steps, so that games end soon: pictures uint8[96, 96, 3]."""
    return gym.make("CarRacing-v3", max_episode_steps=LAPS)


def environment(task: str) -> gym.Env:
    """Gymnasium's environment of a task."""
    return globals()[task.partition(":")[2]]() if task.startswith(Path(__file__).name) else gym.make(task)


def ours(task: str, args: HeldOutArgs) -> tuple[int, float, Callable[[Any, dict[str, Any]], Any]]:
    """Train by the plain command; returns the steps, the seconds and what acts."""
    import headrace
    from headrace.train import Callback, train

    class Until(Callback):
        """Ends the run after so many seconds."""

        def on_update(self, training: Any) -> None:
            if training.seconds >= args.seconds:
                training.stop()

    named = task.replace(Path(__file__).name, str(Path(__file__)), 1)
    with tempfile.TemporaryDirectory() as folder:
        quiet: dict[str, Any] = {"quiet": True, "video": False, "viewer": False}
        result = train(named, seed=args.seed, run_dir=Path(folder) / "run", callback=Until(), **quiet)
        agent = headrace.load(result.run_dir)
    return result.steps, result.seconds, lambda seen, info: agent.act(seen, action_mask=info.get("action_mask"))


def peers(task: str, args: HeldOutArgs) -> tuple[int, float, Callable[[Any, dict[str, Any]], Any]]:
    """Train stable-baselines3 by its defaults; returns the steps, the seconds and what acts."""
    from stable_baselines3 import PPO, SAC
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.preprocessing import is_image_space

    class Until(BaseCallback):
        """Ends the run after so many seconds."""

        def _on_training_start(self) -> None:
            self.began = time.perf_counter()

        def _on_step(self) -> bool:
            return time.perf_counter() - self.began < args.seconds

    env = without_texts(environment(task))
    algorithm: Any = SAC if isinstance(env.action_space, gym.spaces.Box) else PPO
    space = env.observation_space
    policy = "CnnPolicy" if is_image_space(space) else "MlpPolicy"
    policy = "MultiInputPolicy" if isinstance(space, gym.spaces.Dict) else policy
    # of a replay of a million pictures only what a minute fills; it would not fit the memory
    small: dict[str, Any] = {"buffer_size": 20_000} if algorithm is SAC and policy == "CnnPolicy" else {}
    model = algorithm(policy, env, seed=args.seed, device="cpu", **small)
    model.learn(10**9, callback=(until := Until()))
    seconds = time.perf_counter() - until.began

    def act(seen: Any, info: dict[str, Any]) -> Any:
        action = model.predict(seen, deterministic=True)[0]
        return action if action.ndim else action.item()  # some environments look actions up in a dictionary

    return model.num_timesteps, seconds, act


def without_texts(env: gym.Env) -> gym.Env:
    """Returns an environment whose dictionaries have no texts, as a vector if its pictures are too small for a CNN."""
    space = env.observation_space
    if not isinstance(space, gym.spaces.Dict):
        return env
    kept = gym.spaces.Dict({key: part for key, part in space.items() if getattr(part.dtype, "kind", "U") != "U"})
    env = gym.wrappers.TransformObservation(env, lambda seen: {key: seen[key] for key in kept}, kept)
    shapes = [part.shape or () for part in kept.values()]
    small = any(len(shape) == 3 and min(shape[:2]) < LEAST for shape in shapes)
    return gym.wrappers.FlattenObservation(env) if small else env


def judged(act: Callable[[Any, dict[str, Any]], Any], env: gym.Env, games: int) -> list[float]:
    """Returns the returns of games."""
    earned = []
    for game in range(games):
        (seen, info), total, over = env.reset(seed=SEED + game), 0.0, False
        while not over:
            seen, reward, terminated, truncated, info = env.step(act(seen, info))
            total, over = total + float(reward), terminated or truncated
        earned.append(total)
    return earned


def measured(task: str, args: HeldOutArgs) -> dict[str, Any]:
    """Trains one side in this process; returns its steps and the returns of its games."""
    steps, seconds, act = (ours if args.side == OURS else peers)(task, args)
    env = environment(task)
    returns = judged(act, env if args.side == OURS else without_texts(env), args.games)
    mean, each = round(statistics.fmean(returns), 4), [round(one, 3) for one in returns]
    return {"steps": steps, "seconds": round(seconds, 1), "mean": mean, "returns": each}


def row(task: str, sides: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A line of the table."""
    found: dict[str, Any] = {"task": task, "kind": TASKS[task]}
    for side in (OURS, PEER):
        one = sides.get(side)
        found |= {side: one and one["mean"], f"steps of {side}": one and one["steps"]}
    ahead = found[OURS] > found[PEER] if len(sides) == 2 else None
    return found | {"ahead": ahead}


def main() -> None:
    args = tyro.cli(HeldOutArgs)
    if args.side:
        print(json.dumps(measured(args.tasks[0], args)))
        return
    runs: dict[str, dict[str, dict[str, Any]]] = earlier(args.out, "held_out") or {}
    sizes = [f"--seconds={args.seconds}", f"--games={args.games}", f"--seed={args.seed}"]
    for task in args.tasks:
        for side in args.sides:
            runs.setdefault(task, {})[side] = in_child(__file__, "--tasks", task, f"--side={side}", *sizes)
        known = {each: runs[each] for each in TASKS if each in runs}
        ahead = sum(bool(row(*each)["ahead"]) for each in known.items())
        title = f"Held-out tasks: mean return after {args.seconds:.0f} s, ahead in {ahead} of {len(known)}"
        settings = {name: getattr(args, name) for name in ("seconds", "games", "seed")}
        record = heading("held_out", title) | {
            "settings": settings,
            "rows": [row(*each) for each in known.items()],
            "runs": known,
        }
        tell(args.out, record)


if __name__ == "__main__":
    main()
