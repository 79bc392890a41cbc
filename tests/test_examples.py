"""The example programs run to their end, and do what the commands in their docstrings do."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import programs
from nightly import rest_nightly

EXAMPLES = Path(__file__).parent.parent / "examples"
PROGRAMS = sorted(EXAMPLES.glob("*.py"))
QUICK_PROGRAMS = ("envpool_style.py", "guard_and_thieves.py", "kernel_environment.py", "ppo.py", "sac.py")
ALWAYS = [EXAMPLES / name for name in QUICK_PROGRAMS]
ARGUMENTS = {
    "cartpole_10000.py": ["--total-steps", "40000", "--num-envs", "1000"],
    "doorkey.py": ["2048"],
    "dqn_atari.py": ["--total-steps", "1600", "--learning-starts", "1200", "--replay-size", "2000"],
    "guard_and_thieves.py": ["10000"],
    "kernel_environment.py": ["20000"],
    "own_robot.py": ["8192"],
    "ppo.py": ["--total-steps", "4096"],
    "ppo_in_a_page.py": ["--total-steps", "81920"],
    "pqn.py": ["--total-steps", "8192"],
    "ppo_jax.py": ["--total-steps", "8192"],
    "sac.py": ["--total-steps", "600", "--learning-starts", "400", "--updates-per-step", "0.25"],
    "self_play.py": ["--total-steps", "16384"],
    "t_maze.py": ["6000"],
    "walker.py": ["8192"],
    "tag_grid.py": ["--total-steps", "10000"],
    "tag_plane.py": ["--total-steps", "10000"],
}
CONSTRAINTS = EXAMPLES.parent / "constraints.txt"
QUICK = {"task", "total_steps", "num_envs", "stop_episodes", "video", "samplers", "actor_device"}
"""settings in which a quick run differs from what the command says, or that are chosen when it begins"""


@pytest.mark.parametrize("program", rest_nightly(PROGRAMS, *ALWAYS), ids=lambda path: path.name)
def test_example_runs(program: Path, tmp_path: Path) -> None:
    if program.name != "envpool_style.py":
        pytest.importorskip("torch")
    if "jax" in program.name:
        pytest.importorskip("jax")
    command = [sys.executable, str(program), *ARGUMENTS.get(program.name, [])]
    done = programs.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    for run in tmp_path.glob("runs/*/config.json"):
        config = json.loads(run.read_text())
        for words in commands(program):
            asked = settings(words)
            assert asked["task"].endswith(config["task"])
            said = {k: config[k] for k in config.keys() - QUICK - {"updates"}}  # what a run says of itself
            assert {k: v for k, v in asked.items() if k not in QUICK} == said


@pytest.mark.parametrize("program", rest_nightly(PROGRAMS, *PROGRAMS[::4]), ids=lambda path: path.name)
def test_every_example_answers_help(program: Path, tmp_path: Path) -> None:
    """It says what it is, and does not begin."""
    pytest.importorskip("torch")
    if "jax" in program.name:
        pytest.importorskip("jax")
    command = [sys.executable, str(program), "--help"]
    done = programs.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert ("headrace train" if program.parent.name == "algorithms" else "usage: ") in done.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words", ["quiet=True, total_steps=10_000", pytest.param("quiet=True", marks=pytest.mark.nightly)]
)
def test_the_notebook_runs_from_top_to_bottom(words: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    cells = json.loads((EXAMPLES / "first_steps.ipynb").read_text())["cells"]
    assert all(cell["outputs"] for cell in cells if cell["cell_type"] == "code"), "run it anew"
    program = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    assert program.count("quiet=True") == 1
    (tmp_path / "notebook.py").write_text(program.replace("quiet=True", words))
    command = [sys.executable, "notebook.py"]
    done = programs.run(command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "MPLBACKEND": "agg"})
    assert done.returncode == 0, done.stderr
    assert "steps a second" in done.stdout and "Agent('LunarLander-v3', algo='ppo'" in done.stdout


@pytest.mark.nightly
@pytest.mark.parametrize("program", ["ppo.py", "sac.py"])
def test_one_file_learners_run_over_gymnasiums_environments(program: str, tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / program), "--vec", "gymnasium", *ARGUMENTS[program]]
    done = programs.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "mean return" in done.stdout


def commands(program: Path) -> list[list[str]]:
    """The words after ``headrace train`` in its docstring, of commands that have settings."""
    text = (ast.get_docstring(ast.parse(program.read_text())) or "").replace("\\\n", " ")
    return [shlex.split(found) for found in re.findall(r"^ +headrace train (.* --.*)$", text, re.MULTILINE)]


def settings(words: list[str]) -> dict[str, Any]:
    """What such a command writes into ``config.json``."""
    from headrace.cli.train import overrides, parse
    from headrace.train import make_config

    args = parse(words)
    return json.loads(make_config(args.task, **overrides(args)).to_json())


def test_commands_are_found() -> None:
    assert [p.name for p in PROGRAMS if commands(p)] == [
        "cartpole_10000.py",
        "guard_and_thieves.py",
        "tag_grid.py",
        "tag_plane.py",
    ]


def test_the_kuberay_file_asks_for_the_processors_of_its_pods() -> None:
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load((EXAMPLES / "kuberay.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    cluster, (name, command, *words) = job["spec"]["rayClusterSpec"], shlex.split(job["spec"]["entrypoint"])
    asked = settings(words)
    assert (name, command, asked["ray"]) == ("headrace", "train", "auto")
    assert f"ray=={cluster['rayVersion']}" in CONSTRAINTS.read_text().splitlines()
    cpus = 0
    for group in cluster["workerGroupSpecs"]:
        (container,) = group["template"]["spec"]["containers"]
        cpus += group["replicas"] * int(container["resources"]["limits"]["cpu"])
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0" and asked["samplers"] == cpus
    head = cluster["headGroupSpec"]["template"]["spec"]
    assert [volume["name"] for volume in head["volumes"]] == ["runs"]
    (mount,) = head["containers"][0]["volumeMounts"]
    assert mount["name"] == "runs" and words[words.index("--run-dir") + 1].startswith(f"{mount['mountPath']}/")


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.sbatch")), ids=lambda path: path.name)
def test_batch_scripts_are_valid(script: Path) -> None:
    subprocess.run(["bash", "-n", str(script)], check=True)
    options = re.findall(r"^#SBATCH --([\w-]+)=", script.read_text(), re.MULTILINE)
    assert {"nodes", "ntasks-per-node", "cpus-per-task", "time"} <= {*options}
