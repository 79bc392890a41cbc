"""A number that is NaN or infinite ends a run, which names its place and keeps its last checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import headrace
import poisoned_env
from headrace.errors import NotFiniteError
from headrace.train.logging.finite import all_finite
from nightly import rest_nightly
from whole_runs import SMALL, facts, weights

train: Any = headrace.train
OPTIONS = {name: value for name, value in SMALL.items() if name not in ("epochs", "minibatch_size")}
OPTIONS |= {"num_steps": 8, "samplers": 0, "checkpoint_seconds": 1e9, "quiet": True}
REPLAY = {"minibatch_size": 32, "learning_starts": 64, "replay_size": 5000, "replay_ratio": 0.05, "hidden": (8,)}
ALGORITHMS: dict[str, dict[str, Any]] = {"ppo": {}, "a2c": {}, "sac": REPLAY, "td3": REPLAY, "ddpg": REPLAY}


@pytest.mark.parametrize("batch_size", rest_nightly([0, 4], 0))
@pytest.mark.parametrize("algo", rest_nightly(ALGORITHMS, "ppo", "sac"))
@pytest.mark.parametrize(("what", "words"), [("REWARD_NAN", "reward nan"), ("REWARD_INF", "reward -inf")])
def test_a_reward_that_is_not_finite_is_named(tmp_path: Path, algo: str, what: str, words: str, batch_size: int):
    options = OPTIONS | ALGORITHMS[algo] | {"env_options": {"what": getattr(poisoned_env, what)}}
    options |= {"batch_size": batch_size, "normalise_rewards": True, "log_steps": 64}
    expected = rf"environment 3 gave the {words}, in step 4 .* after 128 .* last good state is .*step-0"
    with pytest.raises(NotFiniteError, match=expected):
        train("Poisoned-v0", algo, run_dir=tmp_path, **options)
    assert all(tensor.isfinite().all() for tensor in weights(tmp_path).values())
    assert [line["step"] for line in facts(tmp_path)] == [64, 128]
    assert "NaN" not in (tmp_path / "metrics.jsonl").read_text()


@pytest.mark.parametrize("algo", rest_nightly(["ppo", "a2c", "sac", "ddpg"], "ppo", "sac"))
def test_an_observation_that_is_not_finite_is_named(tmp_path: Path, algo: str):
    options = OPTIONS | ALGORITHMS[algo] | {"log_steps": 64, "env_options": {"what": poisoned_env.OBSERVATION_NAN}}
    with pytest.raises(NotFiniteError, match="environment 3 observed nan at"):
        train("Poisoned-v0", algo, run_dir=tmp_path, **options)
    assert all(tensor.isfinite().all() for tensor in weights(tmp_path).values())


@pytest.mark.parametrize("algo", rest_nightly(["ppo", "a2c"], "ppo"))
def test_an_update_that_goes_wrong_is_named(tmp_path: Path, algo: str):
    """Steps as large as these throw the network out of all bounds."""
    options = OPTIONS | {"learning_rate": 1e30, "normalise_advantages": False}
    with pytest.raises(NotFiniteError, match=r"after the updates of the rollout after .* is (nan|inf|-inf)"):
        train("Pendulum-v1", algo, run_dir=tmp_path, **options)
    assert not tmp_path.exists()  # nothing was learnt before


def test_a_run_with_a_reward_that_is_not_finite_goes_on_from_its_checkpoint(tmp_path: Path):
    """Here it comes to the same end again: an environment follows from its seed."""
    options = OPTIONS | {"env_options": {"what": poisoned_env.REWARD_NAN}}
    with pytest.raises(NotFiniteError):
        train("Poisoned-v0", run_dir=tmp_path, **(options | {"checkpoint_seconds": 0.0}))
    with pytest.raises(NotFiniteError, match=r"in step 4 of the rollout after 128 .*step-000000000128"):
        train.resume(tmp_path, quiet=True)


def test_large_numbers_are_finite():
    values = torch.full((4, 4), 3e38)
    assert not values.sum().isfinite() and all_finite(values)
    assert not all_finite(torch.tensor([1.0, float("inf"), float("-inf")]))
