"""The toy text tasks against their references, exactly: every state and action, or every card."""

# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.toy_text import blackjack as reference_blackjack
from gymnasium.envs.toy_text.frozen_lake import generate_random_map
from kernel_states import arrays_of

import headrace
from headrace.envs.toy_text import cliff_walking, frozen_lake, taxi

RANDOM_MAP = generate_random_map(size=6, p=0.7, seed=3)
LAKES = [
    {},
    {"map_name": "8x8"},
    {"desc": RANDOM_MAP},
    {"desc": ["SFFSF", "FHGHF"], "reward_schedule": (5, -2, -0.25)},
    {"success_rate": 0.75, "desc": RANDOM_MAP, "reward_schedule": (1, -1, 0.1)},
]


def official(task: str, **options):
    """Gymnasium's environment; it has the first cliff and the third taxi under their next names only."""
    renamed = {"CliffWalking-v0": "CliffWalking-v1", "Taxi-v3": "Taxi-v4"}
    return gym.make(renamed.get(task, task), **options).unwrapped


def every_pair(states, actions):
    """(states, actions), each [states · actions]."""
    pairs = np.indices((states, actions)).reshape(2, -1)
    return pairs[0], pairs[1]


DETERMINISTIC = [
    *[("FrozenLake-v1", {"is_slippery": False, **options}) for options in LAKES if "success_rate" not in options],
    ("FrozenLake8x8-v1", {"is_slippery": False}),
    ("CliffWalking-v0", {}),
    ("CliffWalking-v1", {}),
    ("CliffWalkingSlippery-v1", {"is_slippery": False}),
    ("Taxi-v3", {}),
    ("Taxi-v4", {}),
]


@pytest.mark.parametrize(("task", "options"), DETERMINISTIC)
def test_every_action_in_every_state_gives_the_result_of_gymnasium(task, options):
    reference = official(task, **options)
    states, actions = every_pair(reference.observation_space.n, reference.action_space.n)
    with headrace.make(task, num_envs=len(states), seed=0, autoreset="disabled", **options) as pool:
        pool.reset()
        arrays_of(pool)["s"][:] = states
        obs, reward, terminated, truncated, info = pool.step(actions)
    reference.reset()
    for i, (state, action) in enumerate(zip(states, actions, strict=True)):
        reference.s = state
        want_obs, want_reward, want_terminated, _, want_info = reference.step(action)
        assert (obs[i], reward[i], terminated[i]) == (want_obs, np.float32(want_reward), want_terminated), (
            state,
            action,
        )
        assert info["prob"][i] == want_info["prob"]
        if "action_mask" in want_info:
            np.testing.assert_array_equal(info["action_mask"][i], want_info["action_mask"])
    assert not truncated.any()


def as_tuples(outcomes):
    return [(p, s, r, t) for p, s, r, t in outcomes]


@pytest.mark.parametrize("options", LAKES)
def test_a_slippery_lake_has_the_transition_table_of_gymnasium(options):
    reference = official("FrozenLake-v1", **options)
    chosen = {name: option.convert("", name, option.default) for name, option in frozen_lake.options(4).items()}
    chosen |= {name: frozen_lake.options(4)[name].convert("", name, value) for name, value in options.items()}
    desc = frozen_lake.map_of(chosen)
    for state, action in zip(*every_pair(reference.observation_space.n, 4), strict=True):
        assert as_tuples(frozen_lake.rules(desc, chosen, int(state), int(action))) == reference.P[state][action]


@pytest.mark.parametrize("probability", [0.8, 0.35])
def test_a_taxi_in_the_rain_has_the_transition_table_of_gymnasium(probability):
    reference = official("Taxi-v4", is_rainy=True, rainy_probability=probability)
    for state, action in zip(*every_pair(500, 6), strict=True):
        assert as_tuples(taxi.rules(probability, int(state), int(action))) == reference.P[state][action]


def test_a_slippery_cliff_has_the_transition_table_of_gymnasium():
    reference = official("CliffWalkingSlippery-v1")
    for state, action in zip(*every_pair(48, 4), strict=True):
        assert as_tuples(cliff_walking.rules(True, int(state), int(action))) == reference.P[state][action]


@pytest.mark.parametrize("task", ["FrozenLake-v1", "FrozenLake8x8-v1", "Taxi-v4", "CliffWalking-v1", "Blackjack-v1"])
def test_spaces_and_limits_equal_those_of_gymnasium(task):
    spec, reference = headrace.make_spec(task), gym.make(task)
    assert reference.spec
    assert spec.action == reference.action_space
    assert spec.max_episode_steps == (reference.spec.max_episode_steps or 0)
    if task != "Blackjack-v1":
        assert spec.observation.n == reference.observation_space.n
    for name, value in reference.spec.kwargs.items():
        if name != "map_name":
            assert spec.options[name] == value


def cards_of(hand):
    return [int(digit, 16) for digit in f"{int(hand):x}"]


@pytest.mark.parametrize("options", [{}, {"sab": False}, {"natural": True}, {"sab": False, "natural": True}])
def test_blackjack_with_the_same_cards_gives_the_results_of_gymnasium(options, monkeypatch):
    """Gymnasium is dealt the cards that we drew; then everything must be equal."""
    n = 4000
    coming = []
    monkeypatch.setattr(reference_blackjack, "draw_card", lambda random: coming.pop(0))
    reference = official("Blackjack-v1", **{"sab": True, "natural": False, **options})
    reference.np_random = np.random.default_rng(0)
    hits = np.random.default_rng(1).random((n, 40)) < 0.6
    rewards = set()
    with headrace.make("Blackjack-v1", num_envs=n, seed=2, autoreset="disabled", **options) as pool:
        obs, _ = pool.reset()
        arrays = arrays_of(pool)
        # naturals, and dealers' naturals, are too rare to be left to chance
        arrays["player"][:200], arrays["player_sum"][:200], arrays["player_ace"][:200] = 0x1A, 11, True
        arrays["dealer"][:50], arrays["open_card"][:50] = 0xA1, 10
        arrays["dealer"][50:100], arrays["open_card"][50:100] = 0x1A, 1
        hits[:150, 0] = False
        playing, turn, histories = np.arange(n), 0, [[] for _ in range(n)]
        starts = [(cards_of(arrays["dealer"][i]), cards_of(arrays["player"][i])) for i in range(n)]
        while playing.size:
            obs, reward, terminated, _, _ = pool.step(hits[playing, turn].astype(np.int64), playing)
            for row, i in enumerate(playing):
                hands = cards_of(arrays["dealer"][i]), cards_of(arrays["player"][i])
                histories[i].append((hands, obs[row].tolist(), float(reward[row]), bool(terminated[row])))
            playing, turn = playing[~terminated], turn + 1
    for i, ((dealer, player), history) in enumerate(zip(starts, histories, strict=True)):
        coming[:] = dealer + player
        reference.reset()
        for turn, ((dealt, held), want_obs, want_reward, want_terminated) in enumerate(history):
            hit = hits[i, turn]
            coming[:] = held[len(reference.player) :] if hit else dealt[len(reference.dealer) :]
            obs, reward, terminated, _, _ = reference.step(int(hit))
            assert (list(obs), reward, terminated) == (want_obs, want_reward, want_terminated)
            assert not coming, "Gymnasium would have drawn fewer cards"
            rewards.add(reward)
    assert rewards == {-1.0, 0.0, 1.0, *([1.5] if options == {"sab": False, "natural": True} else [])}


@pytest.mark.parametrize(("height", "width"), [(10, 5), (4, 7), (3, 1)])
def test_catch_gives_the_results_of_envpool(height, width):
    envpool = pytest.importorskip("envpool")
    n = 64
    theirs = envpool.make_gymnasium("Catch-v0", num_envs=n, seed=1, height=height, width=width)
    rng = np.random.default_rng(0)
    want, _ = theirs.reset()
    with headrace.make("Catch-v0", num_envs=n, seed=0, height=height, width=width) as pool:
        obs, _ = pool.reset()
        assert obs.dtype == want.dtype
        for episode in range(5):
            arrays = arrays_of(pool)
            arrays["ball_x"][:] = want[:, 0].argmax(axis=1)
            for step in range(height):  # the last is the reset after the end
                actions = rng.integers(0, 3, n)
                if step == height - 1:
                    want, *_ = theirs.step(actions.astype(np.int32))
                    obs, reward, terminated, *_ = pool.step(actions)
                    assert (reward == 0).all()
                    assert not terminated.any()
                    np.testing.assert_array_equal(obs[:, 1:], want[:, 1:])
                    assert (obs[:, 0].sum(axis=1) == 1).all()
                    continue
                want, want_reward, want_terminated, *_ = theirs.step(actions.astype(np.int32))
                obs, reward, terminated, *_ = pool.step(actions)
                np.testing.assert_array_equal(obs, want)
                np.testing.assert_array_equal(reward, want_reward)
                np.testing.assert_array_equal(terminated, want_terminated)
            assert episode == 0 or width == 1 or len(np.unique(want[:, 0].argmax(axis=1))) > 1
    theirs.close()


@pytest.mark.parametrize("slip", [0.0, 1.0])
@pytest.mark.parametrize("links", [5, 1, 9])
def test_a_chain_without_chance_follows_its_rules(slip, links):
    n = links * 2
    states, actions = every_pair(links, 2)
    with headrace.make("NChain-v0", num_envs=n, seed=0, n=links, slip=slip, small=0.5, large=7) as pool:
        pool.reset()
        arrays_of(pool)["link"][:] = states
        obs, reward, terminated, _, _ = pool.step(actions)
    back = (actions == 1) != bool(slip)
    at_end = states == links - 1
    np.testing.assert_array_equal(obs, np.where(back, 0, np.minimum(states + 1, links - 1)))
    np.testing.assert_array_equal(reward, np.where(back, 0.5, np.where(at_end, 7, 0)))
    assert not terminated.any()
