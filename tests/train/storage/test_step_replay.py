"""The replay of steps: exact transitions across ends, cuts and overwriting, and pictures rebuilt from frames."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from headrace.errors import OptionError, SequenceError
from headrace.train.storage.step_replay import StepReplay
from headrace.train.storage.writer import StepWriter

FLOATS = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
TORQUES = gym.spaces.Box(-1, 1, (2,), np.float32)
DISCRETE = gym.spaces.Discrete(5)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def write(writer: StepWriter, obs: Any, reward: Any = 0, terminated: Any = False, truncated: Any = False, **more: Any):
    """Publish a row; values are broadcast to all environments."""
    row = writer.row
    row.observation[:] = obs
    row.action[:], row.reward[:] = more.get("action", 0), reward
    ends = np.broadcast_to(terminated, row.reward.shape), np.broadcast_to(truncated, row.reward.shape)
    writer.publish(*ends, more.get("version", 0))


def everything(replay: StepReplay) -> dict[float, tuple[float, float, float]]:
    """All transitions of one environment of scalars: input → (reward, discount, following)."""
    numbers = replay.draw((4000,), generator())
    read = replay.read(numbers.unique())
    inputs, rewards, discounts, following = read[0][:, 0], read[2], read[3], read[4][:, 0]
    assert len(inputs) == replay.held  # 4000 draws miss none of a few rows
    rounded = (x.double().numpy().round(5).tolist() for x in (inputs, rewards, discounts, following))
    return {i: (r, d, f) for i, r, d, f in zip(*rounded, strict=True)}


def scalars(n_step=1, steps=64, gamma=0.5, **more) -> StepReplay:
    space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    return StepReplay(space, TORQUES, 1, steps, 1, n_step, gamma, **more)


def test_one_step_transitions_end_as_their_episodes_do():
    replay = scalars()
    writer = replay.writer(0)
    writer.begin()
    write(writer, 1, reward=10)
    write(writer, 2, reward=20, terminated=True)
    write(writer, 3)  # the last observation
    write(writer, 4, reward=40)
    write(writer, 5, reward=50, truncated=True)
    write(writer, 6)
    write(writer, 7, reward=70)
    write(writer, 8, reward=80)
    assert replay.held == replay.steps == 5
    assert everything(replay) == {1: (10, 0.5, 2), 2: (20, 0, 3), 4: (40, 0.5, 5), 5: (50, 0.5, 6), 7: (70, 0.5, 8)}


def test_n_step_transitions_are_shortened_at_ends_and_cuts():
    replay = scalars(n_step=3)
    writer = replay.writer(0)
    writer.begin()
    for obs in range(1, 5):
        write(writer, obs, reward=obs, terminated=obs == 4)
    write(writer, 5)
    for obs in range(6, 9):
        write(writer, obs, reward=obs)
    successor = replay.writer(0)
    successor.begin()
    for obs in range(10, 13):
        write(successor, obs, reward=obs, truncated=obs == 12)
    for obs in range(13, 17):
        write(successor, obs, reward=obs)
    assert everything(replay) == {
        1: (1 + 2 / 2 + 3 / 4, 1 / 8, 4),
        2: (2 + 3 / 2 + 4 / 4, 0, 5),
        3: (3 + 4 / 2, 0, 5),
        4: (4, 0, 5),
        6: (6 + 7 / 2, 1 / 4, 8),
        7: (7, 1 / 2, 8),  # what followed row 8 is not known
        10: (10 + 11 / 2 + 12 / 4, 1 / 8, 13),
        11: (11 + 12 / 2, 1 / 4, 13),
        12: (12, 1 / 2, 13),
    }


def test_many_segments_of_many_environments_keep_apart():
    replay = StepReplay(FLOATS, DISCRETE, 3, 100, 4)
    random = np.random.default_rng(1)
    for s in range(3):
        writer = replay.writer(s)
        writer.begin()
        for t in range(20 + 30 * s):
            where = np.arange(4) + 10 * s + 1000 * t
            ends = random.random(4) < 0.2
            write(writer, where[:, None] + [0, 0.25, 0.5], where + 0.5, truncated=ends, action=t % 5, version=t)
    numbers = replay.draw((50, 64), generator())
    assert numbers.shape == (50, 64)
    for batch in numbers:
        inputs, actions, rewards, discounts, following = replay.read(batch)[:5]
        torch.testing.assert_close(following, inputs + 1000)
        torch.testing.assert_close(rewards, inputs[:, 1] + 0.25)
        assert torch.equal(actions, inputs[:, 0].long() // 1000 % 5)
        assert discounts.unique().tolist() == [np.float32(0.99)]
        old = replay.staleness(batch, 100)
        t, s = inputs[:, 0].long() // 1000, inputs[:, 0].long() % 1000 // 10
        assert (old.versions == 100 - t).all() and (old.steps == 19 + 30 * s - t).all()


def test_every_transition_is_drawn_equally_often():
    replay = StepReplay(FLOATS, DISCRETE, 2, 64, 2)
    random = np.random.default_rng(3)
    for s, rows in enumerate((200, 37)):
        writer = replay.writer(s)
        writer.begin()
        for _ in range(rows):
            write(writer, 0, terminated=random.random(2) < 0.3)
    numbers, counts = replay.draw((400_000,), generator()).unique(return_counts=True)
    assert len(numbers) == replay.held
    expected = 400_000 / replay.held
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    assert abs(chi_square - replay.held) < 5 * (2 * replay.held) ** 0.5


def test_rows_that_were_overwritten_are_drawn_anew():
    replay = scalars(steps=64)
    writer = replay.writer(0)
    writer.begin()
    for t in range(60):
        write(writer, t, reward=t)
    numbers = replay.draw((500,), generator())
    for t in range(60, 100):
        write(writer, t, reward=t)
    read = replay.read(numbers)
    assert read.inputs.min() >= 100 + 2 - 64
    assert (read.inputs[:, 0] == read.rewards).all() and (read.next_observations == read.inputs + 1).all()
    assert (numbers == read.inputs[:, 0]).all()


@pytest.mark.parametrize("n_step", [1, 3])
def test_atari_stacks_equal_those_of_the_pool(make, n_step):
    pytest.importorskip("ale_py")
    pytest.importorskip("headrace_atari._atari")
    options = {"seed": 4, "max_episode_steps": 9, "img_height": 42, "img_width": 42}
    stacked = make("Pong-v5", num_envs=3, stack_num=4, **options)
    single = make("Pong-v5", num_envs=3, stack_num=1, **options)
    replay = StepReplay(single.observation_space, DISCRETE, 1, 64, 3, n_step, frame_stack=4)
    writer = replay.writer(0)
    writer.row.observation[:] = single.reset()[0]
    writer.begin()
    seen, ended = [stacked.reset()[0].copy()], [np.ones(3, bool)]
    random = np.random.default_rng(0)
    for _ in range(60):
        assert (writer.stack().numpy() == seen[-1]).all()
        actions = random.integers(0, 5, 3)
        batch = single.make_batch(obs=writer.following.observation)
        _, reward, terminated, truncated, _ = single.step(actions, out=batch)
        writer.row.action[:], writer.row.reward[:] = actions, reward
        writer.publish(terminated, truncated)
        seen.append(stacked.step(actions)[0].copy())
        ended.append(terminated | truncated)
    numbers = replay.draw((200,), generator())
    read = replay.read(numbers)
    assert read.inputs.shape == (200, 4, 42, 42) and read.inputs.dtype == torch.uint8
    for i, number in enumerate(numbers.tolist()):
        t, env = divmod(number, 3)
        to = next(u for u in range(t + 1, t + n_step + 1) if u == t + n_step or ended[u][env])
        assert (read.inputs[i].numpy() == seen[t][env]).all()
        assert (read.next_observations[i].numpy() == seen[to][env]).all()


def test_mistakes_have_names():
    replay = scalars()
    with pytest.raises(SequenceError, match="nothing to draw"):
        replay.draw((1,), generator())
    with pytest.raises(SequenceError, match="begin"):
        write(replay.writer(0), 1)
    with pytest.raises(OptionError, match="segment 1"):
        replay.writer(1)
    with pytest.raises(OptionError, match="more than"):
        scalars(steps=4)
    with pytest.raises(OptionError, match="frame_stack"):
        scalars(frame_stack=4)
    with pytest.raises(OptionError, match="Box and Discrete"):
        StepReplay(gym.spaces.Dict({}), DISCRETE, 1, 64, 1)


def test_a_replay_read_in_inference_mode_can_be_read_outside():
    replay = scalars(n_step=2)
    writer = replay.writer(0)
    writer.begin()
    for t in range(20):
        write(writer, t)
    with torch.inference_mode():
        numbers = replay.draw((8,), generator())
        replay.read(numbers)
    assert not replay.read(numbers.clone()).inputs.is_inference()
