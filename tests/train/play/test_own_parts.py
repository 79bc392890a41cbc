"""A user's environment whose observation is a dictionary with a picture and a vector, by the plain commands."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.cli.main import main
from headrace.errors import OptionError
from headrace.train.modules.cnn import JoinedTrunk
from headrace.train.play.export import export_policy
from nightly import rest_nightly

train: Any = headrace.train  # the module itself, called; a type checker sees a module only

OWN = '''
import gymnasium as gym
import numpy as np


class Meet(gym.Env):
    """A dot is left or right in the picture; the speed says whether to meet or to avoid it."""

    observation_space = gym.spaces.Dict(
        speed=gym.spaces.Box(-500, 500, (2,), np.float32), camera=gym.spaces.Box(0, 255, (12, 10, 3), np.uint8)
    )
    action_space = gym.spaces.Discrete(2)

    def __init__(self, wide=False):
        self.wide = wide
        if wide:
            self.action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.side, self.meets, self.left = self.np_random.integers(2), self.np_random.integers(2), 8
        return self.seen(), {}

    def step(self, action):
        chosen = int(action[0] > 0) if self.wide else int(action)
        reward = float((chosen == self.side) == self.meets)
        self.side, self.meets, self.left = self.np_random.integers(2), self.np_random.integers(2), self.left - 1
        return self.seen(), reward, False, self.left == 0, {}

    def seen(self):
        camera = np.zeros((12, 10, 3), np.uint8)
        camera[3:6, 7 if self.side else 2] = 255
        return {"speed": np.array([400, 300 + 50 * self.meets], np.float32), "camera": camera}
'''
BRIEF: dict[str, Any] = {"quiet": True, "video": False, "viewer": False, "evaluate_episodes": 0}


@pytest.fixture
def own(tmp_path: Path) -> str:
    (tmp_path / "meet.py").write_text(OWN)
    return str(tmp_path / "meet.py")


LONG = "--total-steps 40k"  # as a person begins
SHORT = "--total-steps 6k --num-envs 8 --num-steps 32 --minibatch-size 64 --learning-rate 2e-3"


@pytest.mark.parametrize("settings", rest_nightly([LONG, SHORT], SHORT), ids=["long", "short"])
def test_an_own_environment_of_parts_is_trained_played_exported_and_loaded(
    own: str, tmp_path: Path, settings: str
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    run, file = tmp_path / "run", tmp_path / "meet.onnx"
    assert main(["train", own, *settings.split(), "--run-dir", str(run), "--quiet"]) == 0
    assert main(["play", str(run), "--episodes", "2"]) == 0
    assert main(["export", str(run), str(file)]) == 0
    agent, earned = headrace.load(run), []
    joined: Any = agent.spec.observation
    assert joined.words() == "speed [0:2], camera [2:362] (a picture [3, 12, 10])"
    session = onnxruntime.InferenceSession(str(file))
    env = runpy.run_path(own)["Meet"]()
    for seed in range(20):
        (seen, _), over = env.reset(seed=seed), False
        while not over:
            action = agent.act(seen)
            (answer,) = session.run(["action"], {"observation": joined.of(seen)[None]})
            assert answer == action
            seen, reward, _, over, _ = env.step(action)
            earned.append(reward)
    assert np.mean(earned) > 0.9, "by picture and numbers together"


ALGORITHMS = [
    ("ppo", {"minibatch_size": 16, "num_steps": 8, "normalise_observations": True}),
    ("a2c", {"num_steps": 8}),
    ("pqn", {"minibatch_size": 16, "num_steps": 8}),
    ("dqn", {"samplers": 0, "dueling": True, "minibatch_size": 16, "learning_starts": 64, "replay_size": 2000}),
    ("dqn", {"minibatch_size": 16, "learning_starts": 64, "replay_size": 2000, "n_step": 3}),
    ("sac", {"env_options": {"wide": True}, "samplers": 0, "normalise_observations": True, "learning_starts": 64}),
    ("td3", {"env_options": {"wide": True}, "learning_starts": 64, "replay_size": 2000}),
]


@pytest.mark.parametrize(("algo", "more"), rest_nightly(ALGORITHMS, *ALGORITHMS[:4:3]))
def test_every_algorithm_learns_from_parts_and_is_exported(
    own: str, tmp_path: Path, algo: str, more: dict[str, Any]
) -> None:
    pytest.importorskip("onnxruntime")
    train(own, algo, run_dir=tmp_path / "run", total_steps=200, num_envs=4, **(BRIEF | more))
    agent = headrace.load(tmp_path / "run")
    joined = [part for part in agent.policy.modules() if isinstance(part, JoinedTrunk)]
    assert joined
    difference = export_policy(agent, tmp_path / "policy.onnx").difference
    assert difference is not None and difference < 1e-5


def test_an_agent_takes_parts_and_rows_of_one_environment_and_of_several(own: str, tmp_path: Path) -> None:
    train(own, run_dir=tmp_path / "run", total_steps=64, num_envs=4, num_steps=8, minibatch_size=16, **BRIEF)
    agent = headrace.load(tmp_path / "run")
    with headrace.make(own, num_envs=3, seed=1) as pool:
        seen, _ = pool.reset()
    joined: Any = agent.spec.observation
    rows = np.stack([joined.of({key: part[i] for key, part in seen.items()}) for i in range(3)])
    actions = agent.act(seen)
    assert actions.shape == (3,) and np.array_equal(actions, agent.act(rows))
    assert agent.act({key: part[1] for key, part in seen.items()}) == agent.act(rows[1]) == actions[1]
    with pytest.raises(OptionError, match=r"observations must be nested as Dict\('speed'"):
        agent.act({"camera": seen["camera"]})
    with pytest.raises(OptionError, match="observations must be nested as"):
        agent.act({"camera": seen["camera"][0, :5], "speed": seen["speed"][0]})
