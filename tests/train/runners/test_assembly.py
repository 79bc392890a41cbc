"""The parts of a run: the form of its updates, and settings that do not fit the parts."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.errors import OptionError
from headrace.train import resume
from headrace.train.modules.compiled import described, why_torch_here
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs.folder import RunFolder
from headrace.watch.run import Run

train: Any = headrace.train


def test_a_run_is_stepped_through_by_hand(tmp_path: Path) -> None:
    config = make_config(task="CartPole-v1", num_envs=2, num_steps=16, total_steps=10**9, tensorboard=False)
    with closing(make_trainer(config, RunFolder.create(tmp_path / "run", config))) as trainer:
        trainer.iterate()
        assert trainer.step == 32 and trainer.policies[0].last_losses()


SIZES: dict[str, Any] = {"num_envs": 2, "num_steps": 8, "total_steps": 32, "tensorboard": False, "evaluate_episodes": 0}
SIZES |= {"viewer": False, "video": False}
TWO = {"tagger": {"agents": ["tagger"]}, "runner": {"agents": ["runner"], "target_kl": 0.1}}


@pytest.mark.parametrize(
    ("task", "settings", "by"),
    [
        ("CartPole-v1", {}, "{compiled}"),
        ("CartPole-v1", {"target_kl": 0.1}, "torch (target_kl)"),
        ("CartPole-v1", {"samplers": 1}, "{compiled}"),
        ("TagGridWorld-v0", {"policies": TWO}, "tagger {compiled}, runner torch (target_kl)"),
        pytest.param("CartPole-v1", {"devices": ("cpu", "cpu")}, "torch (data-parallel)", marks=pytest.mark.nightly),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_first_line_of_a_run_names_the_form_of_its_updates(
    task: str, settings: dict[str, Any], by: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    by = by.format(compiled=f"torch ({reason})" if (reason := why_torch_here()) else described())
    path = train(task, "ppo", run_dir=tmp_path / "run", **SIZES, **settings).run_dir
    alone = "devices" not in settings  # others print where the server that forks them was started
    assert not alone or capfd.readouterr().out.splitlines()[0] == f"updates: {by}"
    assert json.loads((path / "config.json").read_text())["updates"] == by
    shown = Run(path, "run")
    shown.refresh()
    assert shown.summary["updates"] == by and "updates" not in shown.summary["config"]
    resume(path, total_steps=64)
    assert not alone or capfd.readouterr().out.splitlines()[0] == f"updates: {by}"


@pytest.mark.parametrize(
    ("task", "settings", "told"),
    [
        ("CartPole-v1", {"algo": "a2c"}, "does not learn from what workers collect"),
        ("TagGridWorld-v0", {"algo": "ppo"}, "several agents"),
        ("Pendulum-v1", {"algo": "sac", "host_random": True}, "host_random=True would not be used by sac"),
    ],
)
def test_a_run_with_samplers_refuses_settings_that_these_cannot_use(
    task: str, settings: dict[str, Any], told: str, tmp_path: Path
) -> None:
    config = make_config(task, samplers=1, **settings)
    with pytest.raises(OptionError, match=told):
        make_trainer(config, RunFolder.create(tmp_path / "run", config))
