"""What the tests of training share; its being here lets the folders below import this folder's helpers."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

import headrace

collect_ignore = [] if importlib.util.find_spec("torch") else ["processes"]  # what starts programs that train


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run of CartPole-v1 that is over; tests that change something take ``run``."""
    path = tmp_path_factory.mktemp("runs") / "trained"
    headrace.train.train(
        "CartPole-v1", total_steps=256, num_envs=4, num_steps=8, minibatch_size=32, hidden=[8], stop_at_return=None,
        run_dir=path, quiet=True, video=False, tensorboard=False,
    )  # fmt: skip
    return path


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of that run."""
    return Path(shutil.copytree(trained, tmp_path / "run"))
