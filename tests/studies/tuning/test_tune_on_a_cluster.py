"""The tuner measures samplers on the nodes of a real Ray cluster, as many as those have room for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.cli.main import main
from headrace.studies.tuning import tune as tuner
from headrace.studies.tuning.measure import Size, measure
from headrace.studies.tuning.tune import tune
from headrace.train.recipes.make import make_config
from headrace.train.settings.config import Config
from train.cluster.nodes import actors_below, nodes

WAITING = """
import time
import gymnasium as gym
import numpy as np

class Waiting(gym.Env):
    observation_space = action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        time.sleep(0.05)
        return np.zeros(1, np.float32), 0.0, False, False, {}
"""
"""an environment whose steps take as long on any machine, however many there are"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tuner, "BUSY", float("inf"))  # whatever else this machine does
    (tmp_path / "waiting.py").write_text(WAITING)
    small = {"algo": "ddpg", "hidden": (16,), "num_envs": 12, "learning_starts": 100, "minibatch_size": 32}
    return small | {"task": f"{tmp_path / 'waiting.py'}:Waiting", "replay_ratio": None, "total_steps": 10**6}


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_samplers_are_doubled_until_the_cluster_is_full(
    settings: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with nodes(2, cpus=1) as cluster:
        config: Config = make_config(**settings, ray=cluster.address, samplers=1)
        found = tune(config, keep=("torch_threads", "num_threads"), limit=3000.0)
        assert found.complete and [probe.size.samplers for probe in found.probes[:2]] == [1, 2]
        one, two = found.probes[:2]
        assert two.sampling > 1.2 * one.sampling > 0 and min(one.updates, two.updates) > 0
        full = measure(config, Size(3, 4, 1, 1), 0.1)
        assert full.note.endswith("take fewer samplers, or add nodes with  ray start --address")
        assert tune(config, keep=("torch_threads", "num_threads")).remembered
        cluster.add()
        asked: list[Any] = []
        tune(config, keep=("torch_threads", "num_threads"), limit=0.1, show=asked.append)
        assert asked  # what was found does not hold for a larger cluster
        words = [settings["task"], "--algo", "ddpg", "--hidden", "16", "--ray", cluster.address, "--limit", "0.1"]
        assert main(["tune", *words]) == 0
        told = capsys.readouterr().out.splitlines()[-1]
        assert told.startswith("the same by hand") and f"--samplers 1 --ray {cluster.address}" in told
        assert not actors_below()
