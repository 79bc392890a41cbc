"""A NaN or infinite number of a worker ends a run, which names its place and keeps its last checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from headrace.errors import NotFiniteError
from headrace.train import train
from headrace.train.logging.dashboard import Dashboard
from headrace.train.play.agent import load_checkpoint
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.folder import RunFolder

POISONED = f"{Path(__file__).parents[2] / 'poisoned_env.py'}:Poisoned-v0"
REWARD_NAN, REWARD_INF, OBSERVATION_NAN = range(3)
REPLAY: dict[str, Any] = {"learning_starts": 64, "replay_size": 5000, "replay_ratio": 0.05}
OPTIONS: dict[str, Any] = {
    "samplers": 1, "num_envs": 8, "hidden": (8,), "total_steps": 4000, "log_steps": 64, "evaluate_episodes": 0,
    "viewer": False, "tensorboard": False, "video": False, "checkpoint_seconds": 1e9, "stop_at_return": None,
}  # fmt: skip


def options(algo: str) -> dict[str, Any]:
    more: dict[str, Any] = {"num_steps": 8} if algo == "ppo" else REPLAY
    return OPTIONS | more


def assert_good_state_is_kept(folder: Path) -> None:
    run, _ = RunFolder.open(folder)
    assert all(tensor.isfinite().all() for tensor in load_checkpoint(run).model.values())
    assert "NaN" not in (folder / "metrics.jsonl").read_text()


@pytest.mark.parametrize("algo", ["ppo", "sac"])
@pytest.mark.parametrize(("what", "words"), [(REWARD_NAN, "the reward nan"), (REWARD_INF, "the reward -inf")])
def test_a_reward_that_is_not_finite_is_named(tmp_path: Path, algo: str, what: int, words: str) -> None:
    expected = rf"environment 3 gave {words}, in step \d+ .*of sampler 0; the last good state is .*step-0"
    with pytest.raises(NotFiniteError, match=expected):
        train(POISONED, algo, run_dir=tmp_path, quiet=True, env_options={"what": what}, **options(algo))
    assert_good_state_is_kept(tmp_path)
    if algo == "sac":  # what was sampled before is learnt from no less
        step = json.loads((checkpoints.newest(tmp_path / "checkpoints") / "state.json").read_text())["step"]  # type: ignore
        assert step == 8 * 20


@pytest.mark.parametrize("algo", ["ppo", "sac"])
def test_an_observation_that_is_not_finite_is_named(tmp_path: Path, algo: str) -> None:
    with pytest.raises(NotFiniteError, match=r"environment 3 observed nan at \[1\]"):
        train(POISONED, algo, run_dir=tmp_path, quiet=True, env_options={"what": OBSERVATION_NAN}, **options(algo))
    assert_good_state_is_kept(tmp_path)


def test_a_loss_that_is_not_finite_is_named(tmp_path: Path) -> None:
    config = make_config("Pendulum-v1", algo="sac", **options("sac"))
    trainer: Any = make_trainer(config, RunFolder.create(tmp_path, config))
    update = trainer.learner.updater.update

    def poisoned() -> None:
        update()
        if trainer.learner.updater.updates == 20:
            trainer.policies[0].actor_parameters[0] = torch.nan

    trainer.learner.updater.update = poisoned  # type: ignore[method-assign]
    try:
        with pytest.raises(
            NotFiniteError,
            match=r"after the updates .*(nan|not finite).*(last good state is .*step-0|nothing had been learnt)",
        ):
            trainer.train(Dashboard(quiet=True))
    finally:
        trainer.close()
    assert_good_state_is_kept(tmp_path)
