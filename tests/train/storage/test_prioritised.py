"""Drawing by priority: as likely as a plain sum says, through everything that comes and goes."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch

from headrace.errors import SequenceError
from headrace.train.storage.prioritised import LEAST, PrioritisedReplay, SumTree
from headrace.train.storage.step_replay import StepReplay


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def assert_drawn_like(numbers: torch.Tensor, chances: dict[int, float]) -> None:
    """A chi-square test, at five standard deviations; nothing without a chance is drawn."""
    found, counts = numbers.unique(return_counts=True)
    drawn = dict(zip(found.tolist(), counts.tolist(), strict=True))
    assert set(drawn) <= {number for number, chance in chances.items() if chance > 0}
    total = sum(chances.values())
    expected = {number: len(numbers) * chance / total for number, chance in chances.items() if chance > 0}
    chi_square = sum((drawn.get(number, 0) - mean) ** 2 / mean for number, mean in expected.items())
    degrees = len(expected) - 1
    assert abs(chi_square - degrees) < 5 * (2 * degrees) ** 0.5


@pytest.mark.parametrize("size", [5, 32, 1000, 1025, 40_000])
def test_a_sum_tree_draws_in_proportion(size):
    tree, random = SumTree(size), np.random.default_rng(size)
    plain = np.zeros(size)
    for count in (3, size, 7, 1):
        places = random.permutation(size)[:count]
        plain[places] = random.random(len(places)) * (random.random(len(places)) < 0.7)
        set_priorities(tree, torch.from_numpy(places), torch.from_numpy(plain[places]))
        assert float(tree.total) == pytest.approx(plain.sum())
        assert (tree.leaves.numpy() == plain).all()
    few = np.argsort(plain)[-40:]  # enough draws of each
    for place in np.setdiff1d(np.arange(size), few):
        plain[place] = 0
    set_priorities(tree, torch.arange(size), torch.from_numpy(plain))
    assert_drawn_like(tree.draw(50_000, generator()), dict(enumerate(plain.tolist())))


def test_a_sum_tree_never_draws_a_row_without_priority():
    tree = SumTree(2000)
    set_priorities(tree, torch.tensor([0, 31, 32, 1999]), torch.tensor([1e-300, 1e-8, 1e8, 1e-9]).double())
    assert set(tree.draw(100_000, generator()).tolist()) <= {0, 31, 32, 1999}
    set_priorities(tree, torch.tensor([32]), torch.zeros(1).double())
    assert set(tree.draw(10_000, generator()).tolist()) == {31, 1999}


def set_priorities(tree: SumTree, places: torch.Tensor, priorities: torch.Tensor) -> None:
    tree.leaves[places] = priorities
    tree.add_up(places)


def filled(rows: list[int], steps: int = 64) -> tuple[StepReplay, list]:
    replay = StepReplay(gym.spaces.Discrete(1000), gym.spaces.Discrete(2), len(rows), steps, 2, n_step=2)
    segments = [replay.writer(s) for s in range(len(rows))]
    for writer, count in zip(segments, rows, strict=True):
        writer.begin()
        go_on(writer, count)
    return replay, segments


def go_on(writer, rows: int) -> None:
    for _ in range(rows):
        t, row = writer.written, writer.row
        row.observation[:], row.action[:], row.reward[:] = t % 1000, 0, t
        writer.publish(np.array([t % 5 == 4, t % 7 == 3]), np.zeros(2, bool))


def held_by(replay: StepReplay) -> set[int]:
    numbers = set(replay.draw((20_000,), generator(9)).tolist())
    assert len(numbers) == replay.held
    return numbers


def test_transitions_are_drawn_by_their_errors_while_rows_are_replaced():
    replay, segments = filled([30, 90])
    prioritised = PrioritisedReplay(replay, exponent=0.7)
    chances = dict.fromkeys(held_by(replay), 1.0)
    assert_drawn_like(prioritised.draw((200, 100), generator(1)).flatten(), chances)
    random, highest = np.random.default_rng(0), 1.0
    for turn in range(4):
        numbers = prioritised.draw((24,), generator(turn)).unique()
        errors = random.normal(size=len(numbers)).astype(np.float32) * 3
        prioritised.update(numbers, torch.from_numpy(errors))
        for number, error in zip(numbers.tolist(), errors.astype(float), strict=True):
            chances[number] = (abs(error) + LEAST) ** 0.7
            highest = max(highest, chances[number])
        for writer in segments:
            go_on(writer, 9 + 30 * turn)  # in the end, more than a whole ring at once
        now = held_by(replay)
        chances = {number: chances.get(number, highest) for number in now}
        assert_drawn_like(prioritised.draw((40_000,), generator(turn + 10)), chances)
    numbers = prioritised.draw((50,), generator(5))
    for importance in (0.5, 1.0):
        prioritised.importance = importance
        weights = prioritised.read(numbers).weights
        assert weights is not None
        wanted = np.array([chances[number] ** -importance for number in numbers.tolist()])
        np.testing.assert_allclose(weights.numpy(), wanted / wanted.max(), rtol=1e-5)


def test_overwritten_rows_are_drawn_anew_and_newer_rows_keep_their_priority():
    replay, (writer,) = filled([60])
    prioritised = PrioritisedReplay(replay, exponent=1.0)
    numbers = prioritised.draw((64,), generator())
    old = numbers.clone()
    go_on(writer, 50)
    read = prioritised.read(numbers)
    assert read.inputs.tolist() == [number // 2 % 1000 for number in numbers.tolist()]
    assert int(numbers.min()) // 2 >= 110 + 2 - 64
    prioritised.draw((1,), generator())
    before = prioritised._tree.leaves.clone()
    prioritised.update(old[old < 40], torch.full((int((old < 40).sum()),), 99.0))
    torch.testing.assert_close(prioritised._tree.leaves, before)


def test_priorities_go_on_from_a_checkpoint():
    """Also those that were not drawn yet, and rows that came between the last draw and the checkpoint."""
    replay, (writer,) = filled([60])
    one = PrioritisedReplay(replay, exponent=0.7)
    numbers = one.draw((64,), generator())
    one.update(numbers, torch.linspace(0.01, 9, 64))
    go_on(writer, 20)
    state = {name: tensor.clone() for name, tensor in one.state().items()}
    two = PrioritisedReplay(replay, exponent=0.7)
    two.load(state)
    for turn in range(3):
        drawn = [each.draw((500,), generator(turn)) for each in (one, two)]
        assert torch.equal(*drawn)
        for each in (one, two):
            each.update(drawn[0], drawn[0].float())
        go_on(writer, 5)


def test_an_empty_replay_refuses_to_draw():
    replay, _ = filled([2])
    with pytest.raises(SequenceError, match="nothing to draw"):
        PrioritisedReplay(replay, 0.5).draw((3,), generator())
