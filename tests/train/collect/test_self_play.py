"""Self-play: opponents play with earlier weights of the learner, which learns to beat them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch

import headrace
import multi_agent_games  # noqa: F401  (registers the test tasks)
from device_waits import NothingWaits
from headrace.errors import OptionError
from headrace.train import resume
from headrace.train.collect.policies import make_policies
from headrace.train.collect.pools import make_collector, training_pool
from headrace.train.collect.self_play import OpponentPool
from headrace.train.play.evaluate import evaluate
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs.checkpoint import load, newest
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.metrics import read_metrics
from nightly import rest_nightly
from whole_runs import SMALL, assert_same_run

train: Any = headrace.train
TASK = "TestDash-v0"
PAST = {"learner": {"agents": [0], "normalise_observations": True}, "past": {"agents": [1], "copies": "learner"}}
WHAT_IS_LEARNT = ("inputs", "actions", "log_probs", "advantages", "returns", "values", "forbidden")
FREQUENT = SMALL | {"total_steps": 4000, "policies": PAST, "copy_every": 256, "copies_kept": 4}


@pytest.fixture
def trainer(tmp_path: Path) -> Any:
    config = make_config(TASK, **FREQUENT)
    trainer: Any = make_trainer(config, RunFolder.create(tmp_path, config))
    yield trainer
    trainer.close()


def tensors(trainer: Any, name: str) -> dict[str, torch.Tensor]:
    """What a policy plays with, as copies, by names without its own."""
    (found,) = [e for e in trainer.source.collector.experiences if e.policy.name == name]
    model = found.policy.model()
    return {key.replace(f".{name}", ""): tensor.clone() for key, tensor in model.items()}


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    assert one.keys() == other.keys()
    return all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_an_opponent_plays_with_earlier_weights_of_the_learner(trainer):
    was, played = {}, []
    for _ in range(30):
        was[trainer.step] = tensors(trainer, "learner")
        trainer.iterate()
        version = trainer.source.self_play.version("past")
        played.append(version)
        assert equal(tensors(trainer, "past"), was[version])
        if version:
            assert not equal(was[version], was[0])
        statistics = [e.encoder.normaliser for e in trainer.source.collector.experiences]
        assert not torch.equal(statistics[0].mean, statistics[1].mean)
    steps = trainer.source.self_play.pools["learner"].steps
    assert len(steps) == 4 and 0 in steps and all(step % 256 == 0 for step in steps)
    assert len(set(played)) > 4


def test_copying_touches_nothing_but_the_copy(trainer):
    trainer.iterate()
    learner, past = tensors(trainer, "learner"), trainer.policies[1]
    where = [p.data_ptr() for p in past.network.parameters()]
    moments = trainer.policies[0].optimisers()["learner.mean"].clone()
    for step in range(0, 5000, 500):
        trainer.source.self_play.draw(step, trainer.source.generator)
    assert equal(tensors(trainer, "learner"), learner)
    assert torch.equal(trainer.policies[0].optimisers()["learner.mean"], moments)
    assert [p.data_ptr() for p in past.network.parameters()] == where
    trainer.iterate()
    assert past.losses is None and not equal(tensors(trainer, "learner"), learner)


def test_the_opponent_in_the_rollout_is_the_version_drawn(trainer):
    """Its recorded action parameters are those that the copied network gives for what it saw."""
    for _ in range(12):
        trainer.iterate()
    past = trainer.source.collector.experiences[1]
    params, _ = past.policy.network(past.inputs[:-1].flatten(0, 1))
    torch.testing.assert_close(params.detach(), past.params.flatten(0, 1), atol=1e-5, rtol=1e-4)


def test_drawing_an_opponent_does_not_wait_for_the_device(trainer):
    trainer.iterate()
    with NothingWaits():
        trainer.source.self_play.draw(9999, trainer.source.generator)


@pytest.mark.parametrize("kept", [1, 2, 4, 9])
def test_kept_versions_stay_spread_over_the_past(kept):
    live = {"w": torch.zeros(())}
    pool = OpponentPool(live, 10, kept)
    for step in range(0, 2000, 5):
        live["w"].fill_(step)
        pool.keep(step)
        found = sorted(pool.steps)
        assert found[-1] == step - step % 10
        if kept > 1:
            assert found[0] == 0 and len(found) == min(kept, step // 10 + 1)
        if kept > 3 and step > 500:
            assert max(b - a for a, b in itertools.pairwise(found)) <= 1.8 * step / (kept - 1)
        for place, version in enumerate(pool.steps):
            drawn = {"w": torch.zeros(())}
            pool.copy(torch.tensor([place]), drawn)
            assert drawn["w"] == version
    drawn = torch.cat([pool.draw(torch.Generator().manual_seed(seed)) for seed in range(200)])
    assert len(drawn.unique()) == kept


@pytest.mark.parametrize("task", rest_nightly([TASK, "TagGridWorld-v0"], TASK))
def test_a_stopped_run_continues_as_if_left_alone(tmp_path: Path, task):
    options = FREQUENT | {"anneal_learning_rate": False, "total_steps": 640, "log_steps": 1, "epochs": 2}
    if task != TASK:
        options |= {"policies": {"a": {"agents": [0, 1]}, "b": {"agents": [2, 3], "copies": "a"}, "runner": {}}}
        options |= {"env_options": {"num_taggers": 4, "max_episode_steps": 9}, "network": "gru", "hidden": (8,)}
    train(task, run_dir=tmp_path / "alone", quiet=True, **options)
    train(task, run_dir=tmp_path / "stopped", quiet=True, **(options | {"total_steps": 384}))
    resume(tmp_path / "stopped", quiet=True, total_steps=640)
    assert_same_run(tmp_path / "alone", tmp_path / "stopped")
    one, two = (load(newest(tmp_path / name / "checkpoints")).state for name in ("alone", "stopped"))  # type: ignore[arg-type]
    pools = [name for name in one if name.startswith("versions.")]
    assert pools and all(torch.equal(one[name], two[name]) for name in pools)
    assert evaluate(tmp_path / "stopped", episodes=2).lengths


def test_a_run_killed_after_its_last_step_is_reported_whole(tmp_path: Path):
    """The checkpoint of its last iteration was written, the line about it not yet."""
    options: dict[str, Any] = FREQUENT | {"log_steps": 100_000, "total_steps": 512}
    config = make_config(TASK, **options)
    killed: Any = make_trainer(config, RunFolder.create(tmp_path, config))
    killed.log = lambda: None
    while killed.step < 512:
        killed.iterate()
    killed.saver.save()
    version = killed.source.self_play.version("past")
    killed.close()
    assert not read_metrics(tmp_path / "metrics.jsonl")
    assert resume(tmp_path, quiet=True).reason == "finished"
    (line,) = read_metrics(tmp_path / "metrics.jsonl")
    assert line["policies"]["past"]["version"] == version and line["policies"]["learner"]["loss"]


@pytest.mark.nightly
def test_a_learner_comes_to_beat_its_first_version(tmp_path: Path):
    settings = {"num_envs": 64, "num_steps": 16, "minibatch_size": 512, "total_steps": 60_000, "learning_rate": 3e-3}
    options = SMALL | settings | {"policies": PAST, "copy_every": 5000, "copies_kept": 6, "checkpoint_seconds": 60.0}
    train(TASK, run_dir=tmp_path, quiet=True, **options)
    run, config = RunFolder.open(tmp_path)
    point = load(newest(run.checkpoints))  # type: ignore[arg-type]
    trainer: Any = make_trainer(config, RunFolder(tmp_path), point)
    pool, (_, opponent) = trainer.source.self_play.pools["learner"], trainer.source.self_play._copying["past"]
    scores = {}
    with torch.inference_mode():
        for step in (0, max(pool.steps)):
            pool.copy(torch.tensor([pool.steps.index(step)]), opponent)
            earned = ended = 0.0
            for _ in range(10):
                trainer.source.collector.draw(trainer.source.generator)
                trainer.source.collector.collect()
                earned += float(trainer.source.collector.rewards[:, :, 0].sum())
                ended += float(trainer.source.collector.ends.sum())
            scores[step] = earned / ended
    trainer.close()
    assert scores.pop(0) > 0.4
    assert abs(*scores.values()) < 0.25
    versions = [line["policies"]["past"]["version"] for line in read_metrics(tmp_path / "metrics.jsonl")]
    assert len(set(versions)) > 3


@pytest.mark.parametrize(
    ("task", "policies", "message"),
    [
        (TASK, {"a": {"agents": [0]}, "b": {"agents": [1], "copies": "c"}}, "'b' can copy one.*not 'c'"),
        (TASK, {"a": {"agents": [0]}, "b": {"agents": [1], "copies": "b"}}, "'b' can copy one.*not 'b'"),
        (TASK, {"a": {"agents": [0], "frozen": True}, "b": {"agents": [1], "copies": "a"}}, "not 'a'"),
        (TASK, {"a": {"agents": [0]}, "b": {"agents": [1], "copies": "a", "hidden": [8]}}, "hidden"),
        ("TestHunt-v0", {"archer": {}, "dog": {"copies": "archer"}}, "different spaces"),
        (TASK, {"a": ["runner"]}, "'a' must be a dict"),
        (TASK, {"a": {"agents": [0, 1], "copys": "a"}}, "'copys'.*copies"),
        (TASK, {"a": {"agents": [0]}, "a.b": {"agents": [1], "copies": "a"}}, "'a.b'.*without dots"),
        (TASK, {"": {"agents": [0]}, "b": {"agents": [1], "copies": ""}}, "policy '' must have a name"),
    ],
)
def test_a_policy_that_cannot_be_copied_is_refused(tmp_path: Path, task, policies, message):
    with pytest.raises(OptionError, match=message):
        train(task, run_dir=tmp_path, quiet=True, **(SMALL | {"policies": policies}))


def test_copies_is_refused_for_a_single_policy(tmp_path: Path):
    with pytest.raises(OptionError, match="one of several policies"):
        train("CartPole-v1", run_dir=tmp_path, quiet=True, copies="self", **SMALL)


def test_games_by_turns_are_learnt_from_decisions_alone():
    """Steps of waiting are no samples, nor are the moves at random with which games begin."""
    games, steps, most = 16, 60, 3
    how = {"decisions_only": True, "random_moves": most, "torch_threads": 1}
    config = make_config("ConnectFour-v0", num_envs=games, num_steps=steps, minibatch_size=32, seed=3, **how)
    pool = training_pool(config)
    collector: Any = make_collector(config, pool, make_policies(config, pool, torch.device("cpu")), torch.device("cpu"))
    collector.start()
    collector.draw(torch.Generator().manual_seed(1))
    (samples,) = collector.collect()
    (masks,) = collector.masks.values()
    allowed = masks[:-1].view(steps, games, 2, 7).bool()
    closed = samples.forbidden.view(allowed.shape)
    taken = samples.actions.view(steps, games, 2, 1)
    decided = allowed.sum(3) > 1
    made = decided & (closed.sum(3) == 6)
    learnt = torch.zeros(decided.numel(), dtype=torch.bool).index_fill_(0, samples.rows, True).view(decided.shape)
    assert allowed.gather(3, taken).all() and not closed.gather(3, taken).any()
    assert not (learnt & (made | ~decided)).any()
    over = collector.terminated
    free = torch.cat((decided & ~made, masks[-1:].view(1, games, 2, 7).sum(3) > 1))
    later = [(free[t + 1 :] & ~over[t:].cumsum(0).bool().unsqueeze(2)).any(0) for t in range(steps)]
    followed = torch.stack(later) | torch.stack([over[t:].any(0) for t in range(steps)]).unsqueeze(2)
    assert torch.equal(learnt, free[:-1] & followed)
    numbers = set()
    for game in range(games):
        ends = over[:, game].nonzero().flatten().tolist()
        assert not made[: ends[0] + 1, game].any()  # of the first game, which is before any number is drawn
        for begin, end in itertools.pairwise(ends):
            counts = made[begin + 1 : end + 1, game].sum(0).tolist()
            first = decided[begin + 1 : end + 1, game].any(1)
            assert counts[0] == counts[1] and made[begin + 1 : end + 1, game].any(1)[first][: sum(counts)].all()
            numbers.add(counts[0])
    assert numbers == set(range(most + 1))
    pool.close()


@pytest.mark.parametrize("task", ["ConnectFour-v0", "KuhnPoker-v0"])  # whose inputs are copied, and are not
def test_the_policy_is_not_evaluated_for_waiting_agents(task: str):
    """What is learnt is the same as if the policy was evaluated for all."""
    learnt, evaluated = [], []
    for skipped in (True, False):
        how = {"decisions_only": True, "random_moves": 3, "torch_threads": 1}
        config = make_config(task, num_envs=16, num_steps=40, minibatch_size=32, seed=3, **how)
        pool = training_pool(config)
        policies: Any = make_policies(config, pool, torch.device("cpu"))
        collector: Any = make_collector(config, pool, policies, torch.device("cpu"))
        collector.experiences[0]._waiting_is_skipped = skipped
        counted: list[int] = []
        policies[0].network.register_forward_hook(
            lambda module, args, result, counted=counted: counted.append(len(args[0]))
        )
        collector.start()
        for seed in (1, 2):
            collector.draw(torch.Generator().manual_seed(seed))
            (samples,) = collector.collect()
        learnt.append([getattr(samples, name)[samples.rows] for name in WHAT_IS_LEARNT])
        evaluated.append(sum(counted))
        pool.close()
    for name, one, other in zip(WHAT_IS_LEARNT, *learnt, strict=True):
        torch.testing.assert_close(
            one, other, rtol=1e-5, atol=1e-6, msg=name
        )  # products of fewer rows may round otherwise
    assert evaluated[0] < 0.5 * evaluated[1]


def test_no_network_is_asked_for_no_rows_while_a_game_opens_at_random():
    """A network may refuse them, as torch's layers of an `MLP` do."""
    how = {"decisions_only": True, "random_moves": 5, "torch_threads": 1}
    config = make_config("TicTacToe-v0", num_envs=1, num_steps=40, minibatch_size=8, **how)
    pool = training_pool(config)
    policies: Any = make_policies(config, pool, torch.device("cpu"))
    collector: Any = make_collector(config, pool, policies, torch.device("cpu"))
    seen: list[int] = []
    policies[0].network.register_forward_pre_hook(lambda module, args: seen.append(len(args[0])))
    collector.start()
    collector.draw(torch.Generator().manual_seed(1))
    collector.collect()
    pool.close()
    assert 0 < len(seen) < 40 and all(seen)


def test_random_moves_of_a_stopped_run_continue_as_if_it_was_left_alone(tmp_path: Path):
    options = SMALL | {"anneal_learning_rate": False, "total_steps": 640, "log_steps": 1, "epochs": 2, "quiet": True}
    options |= {"decisions_only": True, "random_moves": 3, "num_steps": 5}
    train("ConnectFour-v0", run_dir=tmp_path / "alone", **options)
    train("ConnectFour-v0", run_dir=tmp_path / "stopped", **(options | {"total_steps": 320}))
    resume(tmp_path / "stopped", quiet=True, total_steps=640)
    assert_same_run(tmp_path / "alone", tmp_path / "stopped")


def test_decisions_alone_need_masks() -> None:
    with pytest.raises(OptionError, match=r"decisions_only needs action masks.* CartPole-v1 has none"):
        headrace.train("CartPole-v1", decisions_only=True, quiet=True)
