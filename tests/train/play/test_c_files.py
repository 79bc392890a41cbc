"""Policies in C answer as the agents do, compile without a warning, and say what they are."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import headrace
from headrace.cli import export as command
from headrace.errors import OptionError
from headrace.train.modules.action_masks import NEVER
from headrace.train.play.agent import Agent
from headrace.train.play.export import export_policy
from headrace.train.play.export.c import comment, identifier, literal, program_of
from headrace.train.play.export.compiled import compiled, compiler
from headrace.train.play.export.network import network_of
from nightly import rest_nightly
from untrained_agents import CASES, untrained
from whole_runs import SMALL

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O2")
ENVS, STEPS = 8, 125
MORE: dict[str, tuple[str, dict[str, Any]]] = {
    "two choices": ("TestLock-v0", {}),
    "ant": ("Ant-v5", {}),
    "go1": ("Go1Flat-v0", {"env_options": {"critic": True, "flat_observation": True}}),
    "ddpg": ("Pendulum-v1", {"algo": "ddpg"}),
    "a2c": ("CartPole-v1", {"algo": "a2c"}),
    "relu gru": ("Pendulum-v1", {"network": "gru", "hidden": (24, 16), "activation": "relu"}),
    "dueling": ("CartPole-v1", {"algo": "dqn", "dueling": True}),
}
LARGE = {
    "nature": ("Pong-v5", {"algo": "ppo", "preset": "default", "bf16": False}),
    "strided": ("Pong-v5", {"algo": "ppo", "trunk": "strided", "bf16": False}),
    "normed nature": ("Pong-v5", {"algo": "pqn", "bf16": False}),
    "sac from pixels": (
        "CarRacing-v3",
        {"algo": "sac", "bf16": False, "env_options": {"flat_observation": "pictures"}},
    ),
}
ALWAYS = ("mlp", "sac", "td3", "pqn", "dueling", "gru", "small images", "masks", "ant", "go1", "two choices", "one-hot")


def recorded(agent: Agent, envs: int = ENVS, steps: int = STEPS) -> list[tuple[np.ndarray, np.ndarray | None, Any]]:
    """Observations of so many steps, with the masks, as the agent sees them, and the actions that it takes."""
    options, found = agent.config.env_options, []
    with headrace.make(agent.spec.task, num_envs=envs, seed=3, **options) as pool:
        obs, info = pool.reset()
        for _ in range(steps):
            mask = info.get("action_mask") if agent.policy.heads else None
            action = agent.act(obs, action_mask=mask)
            found.append((np.array(obs), None if mask is None else np.array(mask, np.int8), action))
            obs, *_, info = pool.step(action)
    return found


def written(agent: Agent, path: Path, flags: tuple[str, ...] = STRICT) -> Any:
    """The policy as a C file, compiled without a warning, as a function of arrays."""
    program = export_policy(agent, path).program
    assert program is not None
    return compiled(path, network_of(agent.policies[0]), program.scratch, flags)


def check(agent: Agent, path: Path, envs: int = ENVS, steps: int = STEPS) -> None:
    """Asserts that a C file answers as the agent does, in parts of 1e-5 of the greatest number of a row."""
    run, policy, group = written(agent, path), agent.policy, agent.policies[0].agent_group
    ours = torch.zeros(envs, policy.memory_size) if policy.memory_size else None
    theirs = None if ours is None else ours.numpy()
    for obs, mask, action in recorded(agent, envs, steps):
        if group.critic:
            obs = obs[:, : -group.critic]
        with torch.no_grad():
            params, _, *after = policy(torch.from_numpy(obs), ours)
        outputs, chosen, theirs = run(obs, theirs if after else None, mask)
        mine = params.numpy()[:, : outputs.shape[1]]
        size = np.abs(mine).max(1, keepdims=True).clip(1)
        assert np.abs(outputs - mine).max() <= 1e-5 * size.max() and (np.abs(outputs - mine) <= 1e-5 * size).all()
        if after:
            ours = after[0]
            assert np.abs(theirs - ours.numpy()).max() <= 1e-5
        action = np.asarray(action).reshape(chosen.shape)
        if np.issubdtype(chosen.dtype, np.floating):
            assert np.abs(chosen - action).max() <= 1e-5 * max(1.0, np.abs(action).max())
        else:
            same = (chosen == action).all(1)
            assert same.all() or all(_tied(row, size[0, 0]) for row in mine[~same])


def _tied(values: np.ndarray, size: float) -> bool:
    """Whether the two greatest numbers differ by less than rounding does."""
    first, second = np.sort(values[values > NEVER / 2])[-2:][::-1]
    return first - second <= 2e-5 * size


@pytest.mark.parametrize("case", rest_nightly([*CASES, *MORE], *ALWAYS))
def test_a_c_file_answers_as_the_agent_does_on_a_thousand_observations(tmp_path: Path, case: str):
    task, settings = (CASES | MORE)[case]
    check(untrained(task, **settings), tmp_path / "policy.c")


@pytest.mark.nightly
@pytest.mark.parametrize("case", LARGE)
def test_large_images_are_seen_by_the_same_convolutions(tmp_path: Path, case: str):
    task, settings = LARGE[case]
    agent = untrained(task, wild=False, **settings)
    check(agent, tmp_path / "policy.c", 2, 10)


@pytest.mark.nightly
@pytest.mark.parametrize("level", ["-O0", "-O1", "-O3", "-Os", "-Ofast"])
@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_no_compiler_warns_at_any_level(tmp_path: Path, cc: str, level: str):
    if shutil.which(cc) is None:
        pytest.skip(f"{cc} is not installed")
    for name in ("mlp", "gru", "small images", "normed images", "masks", "one-hot", "sac"):
        task, settings = CASES[name]
        export_policy(untrained(task, **settings), tmp_path / "policy.c")
        more = ("-Wconversion", "-Wshadow", "-Wdouble-promotion", "-Wvla", "-c", "-o", "/dev/null")
        subprocess.run([cc, *STRICT[:-1], level, *more, tmp_path / "policy.c"], check=True)


def test_a_critics_own_observation_is_left_out(tmp_path: Path):
    agent = untrained(*MORE["go1"][:1], **MORE["go1"][1])
    network = network_of(agent.policies[0])
    assert network.inputs == 48 and agent.spec.observation.shape != (48,)
    assert network.layers[0].inputs == 48


def test_constants_are_exact():
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 2**32, 20_000, np.uint32).view(np.float32)
    numbers = [*numbers[np.isfinite(numbers)], np.float32(0), np.float32(-0.0), np.float32(1), np.float32(2**-149)]
    for number in numbers:
        text = literal(float(number))
        assert re.fullmatch(r"-?0x[01](\.[0-9a-f]+)?p-?\d+f", text)
        back = np.float32(float.fromhex(text.removesuffix("f")))
        assert back.tobytes() == number.tobytes()
    assert literal(float("-inf")) == "-INFINITY"


def test_names_of_c_come_from_the_file():
    assert [identifier(stem) for stem in ("policy", "go1-walk.2", "2nd", "_x", "Ant")] == [
        "policy", "go1_walk_2", "policy_2nd", "x", "ant",
    ]  # fmt: skip


def test_no_text_ends_a_comment(tmp_path: Path):
    """A task's name may come from a stranger's run folder, and what is exported is compiled and loaded."""
    evil = ["*/ int evil(void); /*", "**//", "/*/", "*/*/", "a\\", "???/", "a\n*/ int b;", "\u202e*/", "/\u200b*"]
    source = comment(evil)
    assert source.count("*/") == 1 and source.count("/*") == 1 and source.endswith("*/")
    (tmp_path / "evil.c").write_text(f"{source}\nint only;\n")
    subprocess.run([compiler() or "", *STRICT, "-c", "-o", "/dev/null", tmp_path / "evil.c"], check=True)


def test_the_header_says_what_the_numbers_are(tmp_path: Path):
    export_policy(untrained(MORE["go1"][0]), tmp_path / "go1.c")
    header = (tmp_path / "go1.h").read_text()
    for words in ("Go1Flat-v0", "50 times a second", "FR_hip_joint", "[rad/s]", "GO1_OBSERVATION_SIZE 48",
                  "void go1_act(go1_state *state, const float observation[48], float action[12]);"):  # fmt: skip
        assert words in header, words
    source = (tmp_path / "go1.c").read_text()
    assert re.findall(r"#include (\S+)", source + header) == ['"go1.h"', "<math.h>", "<stdint.h>"]
    assert "malloc" not in source


def test_two_policies_work_side_by_side(tmp_path: Path):
    """Whatever changes is in the caller's struct."""
    export_policy(untrained(*CASES["gru"][:1], **CASES["gru"][1]), tmp_path / "policy.c")
    source = (tmp_path / "policy.c").read_text()
    assert all(line.startswith("static const") for line in re.findall(r"^static .*=", source, re.MULTILINE))


class Own(nn.Module):
    def __init__(self, space: Any, outputs: int):
        super().__init__()
        self.layer = nn.Linear(int(np.prod(space.shape)), outputs + 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = self.layer(x)
        return found[:, :-1], found[:, -1]


def test_what_cannot_be_written_as_c_says_why(tmp_path: Path):
    settings: Any = SMALL | {"total_steps": 128, "network": Own}
    run = headrace.train("CartPole-v1", **settings, run_dir=tmp_path / "run", quiet=True).run_dir
    with pytest.raises(OptionError, match=r"no form of a network of one's own, as it is Python code: .*\.onnx"):
        export_policy(headrace.load(run, network=Own), tmp_path / "policy.c")
    agent = untrained("CartPole-v1")
    with pytest.raises(OptionError, match="letters, digits"):
        export_policy(agent, tmp_path / "my policy.c")
    agent.policy.network.policy_weight[0, 0] = torch.nan
    with pytest.raises(OptionError, match="not finite"):
        export_policy(agent, tmp_path / "policy.c")
    assert not list(tmp_path.glob("*.[ch]"))


def test_without_a_compiler_the_file_is_written_unchecked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    done = export_policy(untrained("CartPole-v1"), tmp_path / "policy.c")
    assert done.difference is None and "no C compiler" in done.checked and done.path.exists()
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho 'cannot find math.h' >&2\nexit 1\n")
    broken.chmod(0o755)
    done = export_policy(untrained("CartPole-v1"), tmp_path / "policy.c")
    assert done.difference is None and "cannot find math.h" in done.checked


def test_sizes_are_those_of_the_file(tmp_path: Path):
    agent = untrained("CartPole-v1", hidden=(16, 8))
    network = network_of(agent.policies[0])
    program = program_of(network, "policy")
    assert program.multiply_adds == 4 * 16 + 16 * 8 + 8 * 2
    assert program.weights == 4 * (4 * 16 + 16 + 16 * 8 + 8 + 8 * 2 + 2) + 4 * 8 * bool(agent.policy.encoder.normaliser)
    (tmp_path / "policy.h").write_text(program.header)
    asks = f'#include "policy.h"\nint same[sizeof(policy_state) == {program.scratch} ? 1 : -1];\n'
    (tmp_path / "size.c").write_text(asks)
    subprocess.run([compiler() or "", *STRICT, "-c", "-o", "/dev/null", tmp_path / "size.c"], check=True)


def test_the_command_prints_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    settings: Any = SMALL | {"total_steps": 256}
    run = headrace.train("CartPole-v1", **settings, run_dir=tmp_path / "run", quiet=True).run_dir
    assert command.run([str(run), str(tmp_path / "policy.c")]) == 0
    said = capsys.readouterr().out
    assert "bytes of weights" in said and "multiply-adds a step" in said and "policy.json" in said


def test_the_example_on_the_page_runs(tmp_path: Path):
    agent = untrained("CartPole-v1")
    export_policy(agent, tmp_path / "policy.c")
    page = (Path(__file__).parents[3] / "docs" / "export.md").read_text()
    (main,) = re.findall(r"^```c\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "main.c").write_text(main)
    subprocess.run([compiler() or "", *STRICT, "main.c", "policy.c", "-lm"], cwd=tmp_path, check=True)
    obs = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    given = "".join(" ".join(map(str, row.tolist())) + "\n" for row in obs)
    done = subprocess.run([tmp_path / "a.out"], input=given, capture_output=True, text=True, check=True)
    assert [*map(int, done.stdout.split())] == agent.act(obs).tolist()
