"""ViZDoom's tasks beside a bare game of ViZDoom's, bit by bit, and beside EnvPool's formulas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.seeding import np_random

from envpool_doom import EnvpoolDoom
from headrace.envs.vizdoom.options import OPTIONS
from headrace.envs.vizdoom.rewards import REWARDS, WEAPON_REWARDS, Rewards
from headrace.pool.options import complete
from nightly import rest_nightly

vizdoom: Any = pytest.importorskip("vizdoom")

from headrace.envs.vizdoom.env import INFO, VizdoomEnv  # noqa: E402

SEED = 7
FULL = {"img_height": 240, "img_width": 320, "stack_num": 2}


def bare_game(scenario: str, seed: int) -> Any:
    """The scenario's game as ViZDoom's documentation has it, with the variables of our info."""
    game = vizdoom.DoomGame()
    game.load_config(str(Path(vizdoom.scenarios_path) / f"{scenario}.cfg"))
    game.set_window_visible(False)
    game.set_mode(vizdoom.Mode.PLAYER)
    game.set_doom_map("map01")
    game.set_episode_timeout(0)
    game.set_seed(seed)
    for name in INFO:
        game.add_available_game_variable(getattr(vizdoom.GameVariable, name))
    game.init()
    return game


@pytest.mark.parametrize(
    ("task", "scenario"),
    [("Basic-v1", "basic"), ("Deathmatch-v1", "deathmatch"), ("HealthGathering-v1", "health_gathering")],
)
def test_a_task_equals_a_bare_game_of_vizdoom(
    task: str, scenario: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same seed and actions: same screens, variables and end, whatever was played before."""
    monkeypatch.chdir(tmp_path)
    env = VizdoomEnv(task, complete(task, OPTIONS, FULL))
    rng = np.random.default_rng(0)

    def act() -> np.ndarray:
        return (rng.random(env.action_space.shape) < 0.4).astype(np.float64)

    env.reset(seed=3)
    for _ in range(20):
        if env.step(act())[2]:
            env.reset()
    obs, info = env.reset(seed=SEED)
    first = obs[:3]
    game = bare_game(scenario, int(np_random(SEED)[0].integers(2**31)))
    names = [variable.name for variable in game.get_available_game_variables()]
    try:
        for step in range(150):
            state = game.get_state()
            assert np.array_equal(obs[3:], state.screen_buffer), step
            assert np.array_equal(obs[:3], first), step
            assert info == {name: dict(zip(names, state.game_variables, strict=True))[name] for name in INFO}, step
            first, action = obs[3:], act()
            obs, _, over, _, info = env.step(action)
            game.make_action(action.tolist(), 4)
            assert over == game.is_episode_finished()
            if over:
                break
    finally:
        game.close()
        env.close()
    assert not list(tmp_path.glob("headrace*"))


@pytest.fixture
def peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes one environment of EnvPool's, whose engine leaves files where it runs."""
    pytest.importorskip("envpool")
    monkeypatch.chdir(tmp_path)
    made = []

    def make(task: str, **options: Any) -> EnvpoolDoom:
        made.append(EnvpoolDoom(task, num_envs=1, num_threads=1, seed=5, **options))
        return made[-1]

    yield make
    for pool in made:
        pool.close()


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("D1Basic-v1", {}),
        ("Deathmatch-v1", {"force_speed": True, "delta_button_config": {"TURN_LEFT_RIGHT_DELTA": (3, -10.0, 10.0)}}),
    ],
)
def test_combined_actions_press_the_buttons_of_envpool(peer: Any, task: str, options: dict[str, Any]) -> None:
    """In EnvPool the number of an action and our row of its buttons give the same step."""
    given = complete(task, OPTIONS, {"use_combined_action": True, **options})
    table = VizdoomEnv(task, given)._table
    assert table is not None
    numbers, buttons = peer(task, use_combined_action=True, **options), peer(task)
    assert numbers.action_space.n == len(table)
    rng = np.random.default_rng(0)
    assert np.array_equal(numbers.reset()[0], buttons.reset()[0])
    for _ in range(40):
        action = int(rng.integers(len(table)))
        by_number, by_buttons = numbers.step(np.array([action])), buttons.step(np.array([table[action]]))
        assert np.array_equal(by_number[0], by_buttons[0])
        assert by_number[2] == by_buttons[2]


@pytest.mark.parametrize("task", ["Deathmatch-v1", *rest_nightly(["Basic-v1", "HealthGathering-v1"])])
def test_rewards_equal_those_of_envpool(peer: Any, task: str) -> None:
    """Our formula gives EnvPool's rewards from EnvPool's infos; the last step of an episode earns nothing."""
    theirs = peer(task, use_combined_action=True)
    rewards = Rewards(INFO, REWARDS, WEAPON_REWARDS, 5)
    rng = np.random.default_rng(0)
    _, info = theirs.reset()
    rewards.begin(np.array([info[name][0] for name in INFO]))
    earned, ends = 0, 0
    for _ in range(400):
        _, reward, terminated, _, info = theirs.step(rng.integers(theirs.action_space.n, size=1))
        values = np.array([info[name][0] for name in INFO])
        if info["elapsed_step"][0] == 0:
            rewards.begin(values)
        elif terminated[0]:
            assert reward[0] == 0
            ends += 1
        else:
            assert abs(rewards.step(values) - reward[0]) < 1e-6
            earned += reward[0] != 0
    assert earned > 10
    assert ends or task == "Basic-v1"


@pytest.mark.nightly
@pytest.mark.parametrize("task", ["HealthGathering-v1", "D1Basic-v1"])
def test_episodes_without_actions_are_as_long_as_in_envpool(peer: Any, make: Any, task: str) -> None:
    """The floor hurts at a pace of its own, so a player who stands still dies at the same step; healths agree."""

    def played(pool: Any) -> list[float]:
        _, info = pool.reset()
        health, over = [float(info["HEALTH"][0])], False
        while not over:
            _, _, terminated, truncated, info = pool.step(np.zeros(1, np.int64))
            health.append(float(info["HEALTH"][0]))
            over = bool(terminated[0] | truncated[0])
        return health

    ours = played(make(task, seed=5, use_combined_action=True, img_height=24, img_width=24))
    assert ours == played(peer(task, use_combined_action=True))


@pytest.mark.nightly
@pytest.mark.parametrize("task", ["TakeCover-v1", "DefendTheLine-v1"])
def test_first_frames_equal_those_of_envpool(peer: Any, make: Any, task: str) -> None:
    """With the same textures: those of the Freedoom that came with EnvPool, which is older than ViZDoom's."""
    assets = pytest.importorskip("envpool_assets")
    older = str(Path(assets.__path__[0]) / "vizdoom" / "bin" / "freedoom2.wad")
    theirs, _ = peer(task).reset()
    ours, _ = make(task, seed=0, iwad_path=older).reset()
    apart = np.abs(ours.astype(int) - theirs)
    assert apart.max() <= 1 and (apart > 0).mean() < 0.001  # means half-way between two levels are rounded differently
