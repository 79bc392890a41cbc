"""Options of the MuJoCo tasks: Gymnasium's and EnvPool's names, the users' own models, and invalid values."""

from __future__ import annotations

import re
import subprocess
import sys
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium_side import ASSETS, TASKS, play_both
from hypothesis import given
from hypothesis import strategies as st

import headrace
from headrace.envs.mujoco.options import in_gymnasiums_names, number_range
from headrace.errors import OptionError

V5 = [task for task in TASKS if task.endswith("v5")]

# -- names ---------------------------------------------------------------------------------------

NAMES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    # the task, options as EnvPool has them, and as Gymnasium has them
    ("Ant-v5", {"healthy_z_min": 0.4}, {"healthy_z_range": (0.4, 1.0)}),
    ("Ant-v5", {"healthy_z_max": 0.9, "healthy_z_min": 0.4}, {"healthy_z_range": (0.4, 0.9)}),
    ("Ant-v4", {"contact_force_min": -2, "use_contact_force": True}, {"contact_force_range": (-2.0, 1.0)}),
    ("Hopper-v5", {"healthy_state_max": 7, "healthy_angle_min": -1}, {"healthy_state_range": (-100.0, 7.0)}),
    ("Hopper-v4", {"healthy_z_min": 1.0}, {"healthy_z_range": (1.0, inf)}),
    ("Humanoid-v5", {"contact_cost_max": 3.0}, {"contact_cost_range": (-inf, 3.0)}),
    ("HumanoidStandup-v5", {"contact_cost_max": 3.0}, {"impact_cost_range": (-inf, 3.0)}),
    ("HumanoidStandup-v5", {"contact_cost_weight": 0.5}, {"impact_cost_weight": 0.5}),
    ("HumanoidStandup-v5", {"forward_reward_weight": 0.5}, {"uph_cost_weight": 0.5}),
    ("Pusher-v5", {"near_cost_weight": 2.0, "dist_cost_weight": 4}, {"reward_near_weight": 2.0}),
    ("Reacher-v5", {"ctrl_cost_weight": 2.0}, {"reward_control_weight": 2.0}),
    ("Ant-v5", {"ctrl_cost_weight": 2.0}, {"ctrl_cost_weight": 2.0}),
]


@pytest.mark.parametrize(("task", "envpools", "gymnasiums"), NAMES)
def test_options_in_envpools_names_set_the_options_of_gymnasium(
    task: str, envpools: dict[str, Any], gymnasiums: dict[str, Any]
) -> None:
    options = headrace.make_spec(task, **envpools).options
    assert {name: options[name] for name in gymnasiums} == gymnasiums


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("Ant-v5", {"healthy_z_range": (0.1, 0.2), "healthy_z_min": 0.0}),
        ("Ant-v4", {"use_contact_forces": True, "use_contact_force": True}),
        ("Reacher-v5", {"ctrl_cost_weight": 2.0, "reward_control_weight": 2.0}),
    ],
)
def test_an_option_given_by_two_names_is_refused(task: str, options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="is given twice"):
        headrace.make_spec(task, **options)


@given(st.floats(-5, 5), st.floats(0, 5), st.permutations(["low", "high"]), st.sets(st.sampled_from(["low", "high"])))
def test_lower_and_upper_bounds_form_a_range_in_any_order(
    low: float, more: float, order: list[str], given_ends: set[str]
) -> None:
    known = {"healthy_z_range": number_range(-10.0, 20.0), "healthy_reward": 1.0}
    ends = {"low": ("healthy_z_min", low), "high": ("healthy_z_max", low + more)}
    options = dict(ends[end] for end in order if end in given_ends)
    found = in_gymnasiums_names("Task", known, options | {"other": 3})
    wanted = (low if "low" in given_ends else -10.0, low + more if "high" in given_ends else 20.0)
    assert found == ({"healthy_z_range": wanted} if given_ends else {}) | {"other": 3}


# -- invalid values ------------------------------------------------------------------------------

WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("Ant-v5", {"healthy_z_ranges": (0, 1)}, "did you mean healthy_z_range"),
    ("Ant-v5", {"use_contact_forces": True}, "no option 'use_contact_forces'"),  # v4's
    ("Ant-v4", {"main_body": 1}, "no option 'main_body'"),  # v5's
    ("Reacher-v5", {"reset_noise_scale": 0.1}, "no option 'reset_noise_scale'"),
    ("Ant-v5", {"healthy_z_range": (1.0, 0.2)}, "two numbers"),
    ("Ant-v5", {"healthy_z_range": (nan, 1.0)}, "two numbers"),
    ("Ant-v5", {"healthy_z_range": (0.1, 0.2, 0.3)}, "two numbers"),
    ("Ant-v5", {"healthy_z_range": 0.5}, "two numbers"),
    ("Ant-v5", {"healthy_z_range": "01"}, "two numbers"),
    ("Ant-v5", {"healthy_z_min": "low"}, "two numbers"),
    ("Ant-v5", {"main_body": "head"}, "no body 'head': it has world, torso, front_left_leg"),
    ("Ant-v5", {"main_body": 99}, "no body 99"),
    ("Ant-v5", {"main_body": -1}, "no body -1"),
    ("Ant-v5", {"main_body": 1.0}, "a body's name or number"),
    ("Ant-v5", {"main_body": True}, "a body's name or number"),
    ("Ant-v5", {"reset_noise_scale": -0.1}, "at least 0"),
    ("Ant-v5", {"ctrl_cost_weight": inf}, "finite"),
    ("Ant-v5", {"ctrl_cost_weight": "much"}, "finite"),
    ("Ant-v5", {"terminate_when_unhealthy": 1}, "True or False"),
    ("Ant-v5", {"frame_skip": 0}, "at least 1"),
    ("Ant-v5", {"frame_stack": 0}, "at least 1"),
    ("Ant-v5", {"max_episode_steps": -1}, "at least 0"),
    ("Ant-v5", {"max_geom": 0}, "at least 1|in \\[1,"),
    ("Ant-v5", {"visual_options": 14}, "a dict: mujoco.mjtVisFlag"),
    ("Ant-v5", {"visual_options": {14: 1}}, "a dict: mujoco.mjtVisFlag"),
    ("Ant-v5", {"visual_options": {-1: True}}, "a dict: mujoco.mjtVisFlag"),
    ("Ant-v5", {"visual_options": {999: True}}, "a dict: mujoco.mjtVisFlag"),
    ("Ant-v5", {"visual_options": {1.5: True}}, "a dict: mujoco.mjtVisFlag"),
    ("Ant-v5", {"visual_options": {"contacts": True}}, "a dict: mujoco.mjtVisFlag"),
    ("Ant-v5", {"xml_file": "ants.xml"}, r"no file .*ants\.xml: for a file of yours say '\./FILE\.xml'"),
    ("Ant-v5", {"xml_file": "./ants.xml"}, "no file"),
    ("Ant-v5", {"xml_file": "/nowhere/ants.xml"}, "no file /nowhere/ants.xml"),
    ("Ant-v5", {"xml_file": ""}, "a file's path"),
    ("Ant-v5", {"xml_file": 3}, "a file's path"),
    ("Ant-v4", {"xml_file": "reacher.xml"}, "no body 'torso'"),
    ("Humanoid-v5", {"xml_file": "hopper.xml"}, "needs at least 7 and 6: a free joint comes first"),
    ("Hopper-v5", {"xml_file": "inverted_pendulum.xml"}, "2 positions and 2 velocities, and needs at least 3 and 3"),
    ("InvertedDoublePendulum-v5", {"xml_file": "hopper.xml"}, "needs a site"),
    ("Pusher-v5", {"xml_file": "humanoid.xml"}, "no body 'tips_arm'"),
    ("Reacher-v5", {"xml_file": "swimmer.xml"}, "no body 'fingertip'"),
]


@pytest.mark.parametrize(("task", "options", "message"), WRONG)
def test_invalid_option_values_are_errors(task: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        headrace.make_spec(task, **options)


def test_the_error_of_a_model_that_does_not_compile_gives_the_reason(tmp_path: Path) -> None:
    for text, message in (("<mujoco><worldbody/>", "XML"), ("<mujoco><boddy/></mujoco>", "boddy"), ("", "")):
        (tmp_path / "model.xml").write_text(text)
        with pytest.raises(OptionError, match=rf"(?s)Ant-v5's model cannot be compiled: .*{message}"):
            headrace.make("Ant-v5", xml_file=str(tmp_path / "model.xml"))


# -- models of one's own -------------------------------------------------------------------------


def changed(task: str, folder: Path) -> str:
    """Gymnasium's model for a task with another time step, heavier, and without actuators' limits or tendons."""
    text = (ASSETS / headrace.make_spec(task).options["xml_file"]).read_text()
    text = re.sub(r'timestep="(0\.\d+)"', lambda found: f'timestep="{float(found[1]) / 2}"', text)
    text = re.sub(r"<tendon>.*?</tendon>", "", text, flags=re.DOTALL).replace('density="', 'density="1')
    (folder / "mine.xml").write_text(text)
    return str(folder / "mine.xml")


@pytest.mark.parametrize("task", V5)
def test_a_users_own_model_gives_the_results_of_gymnasium(task: str, tmp_path: Path) -> None:
    play_both(task, 1, 5, xml_file=changed(task, tmp_path), max_episode_steps=30)


@pytest.mark.parametrize("name", ["./mine.xml", "~/mine.xml"])
def test_a_model_is_found_in_the_working_and_the_home_directory(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed("Hopper-v5", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with headrace.make("Hopper-v4", xml_file=name) as pool:  # an option of v4 too
        pool.reset()
        pool.step(np.zeros((1, 3)))
        assert pool.state_arrays()["time"][0, 0] == pytest.approx(0.004)


def test_xml_file_takes_a_path_object(tmp_path: Path) -> None:
    path = Path(changed("Hopper-v5", tmp_path))
    assert headrace.make_spec("Hopper-v5", xml_file=path).options["xml_file"] == str(path)


def test_no_file_is_written_into_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MuJoCo would leave its complaint about Gymnasium's model there, in a file."""
    monkeypatch.chdir(tmp_path)
    with headrace.make("HalfCheetah-v5") as pool:
        pool.reset()
    assert not list(tmp_path.iterdir())


WITHOUT = """
import sys
sys.modules["mujoco"] = None  # as if it were not installed
import headrace
assert "Ant-v5" in headrace.list_all_envs()
assert not {"warp", "gymnasium.envs.mujoco"} & set(sys.modules)
try:
    headrace.make("Ant-v5")
except headrace.errors.OptionError as error:
    print(error)
"""


def test_without_mujoco_tasks_are_listed_and_the_error_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=120)
    assert "pip install 'headrace[mujoco]'" in done.stdout, done.stderr


# -- repeated actions ----------------------------------------------------------------------------


@pytest.mark.parametrize("physics", ["lanes", "mujoco"])
@pytest.mark.parametrize("task", ["Hopper-v5", "CheetahRun-v1"])
def test_a_repeated_action_earns_the_rewards_of_its_steps(task: str, physics: str) -> None:
    """Up to the end of an episode: a hopper falls soon, and seldom at the last of four steps."""
    options: dict[str, Any] = {"physics": physics, "num_envs": 3, "seed": 1, "autoreset": "disabled"}
    chance, ended = np.random.default_rng(0), 0
    with headrace.make(task, action_repeat=4, **options) as repeating, headrace.make(task, **options) as single:
        assert repeating.spec.frame_skip == 4 * single.spec.frame_skip
        assert repeating.spec.max_episode_steps * 4 == single.spec.max_episode_steps
        repeating.reset()
        single.reset()
        alive = np.arange(3)
        for _ in range(40):
            actions = chance.uniform(-1, 1, (len(alive), *single.action_space.shape))
            ours = repeating.step(actions, alive)
            earned, left, seen = np.zeros(3), alive, {}
            for _ in range(4):
                if len(left):
                    obs, reward, terminated, *_ = single.step(actions[np.isin(alive, left)], left)
                    rows = np.concatenate([np.reshape(part, (len(left), -1)) for part in by_key(obs)], 1)
                    seen |= dict(zip(left, rows, strict=True))
                    earned[left] += reward
                    left = left[~terminated]
            shown = np.concatenate([np.reshape(part, (len(alive), -1)) for part in by_key(ours[0])], 1)
            np.testing.assert_array_equal(shown, [seen[each] for each in alive])
            np.testing.assert_allclose(ours[1], earned[alive], rtol=1e-5)
            np.testing.assert_array_equal(ours[2], ~np.isin(alive, left))
            ended, alive = ended + len(alive) - len(left), left
            if not len(alive):
                break
    assert ended == 3 or task != "Hopper-v5"


def by_key(observation: Any) -> list[Any]:
    return list(observation.values()) if isinstance(observation, dict) else [observation]


def test_a_stack_of_pictures_has_one_for_each_repeated_action() -> None:
    options: dict[str, Any] = {"from_pixels": True, "render_width": 32, "render_height": 32, "render_effects": False}
    actions = np.random.default_rng(0).uniform(-1, 1, (3, 1, 6))
    with (
        headrace.make("HalfCheetah-v5", num_envs=1, seed=1, action_repeat=3, frame_stack=2, **options) as repeating,
        headrace.make("HalfCheetah-v5", num_envs=1, seed=1, **options) as single,
    ):
        repeating.reset()
        pictures = [single.reset()[0][0]]
        for action in actions:
            stack = repeating.step(action)[0][0]
            pictures += [[single.step(action)[0][0] for _ in range(3)][-1]]
            np.testing.assert_array_equal(stack, np.concatenate(pictures[-2:]))
