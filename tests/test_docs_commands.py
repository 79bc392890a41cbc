"""Every ``headrace`` command in README.md and docs/ runs, in a folder as its reader has it, though not for as long.

Commands of a page run in their order, in one folder; runs that earlier ones would have left are there. Those that are
quick always run, all others nightly. What needs a GPU, or a library that is not installed, is skipped.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import programs
from headrace.cli.main import COMMANDS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(headrace [^`]+)`")
WHOLE = re.compile(r"headrace (?:doctor$|\w+ (?:--resume )?(?!--)(?![A-Z]+(?: |$))(?!.*(?:\[|:Class| [A-Z] )))")
"""a command in a text that lacks nothing, and has no name that stands for the reader's own"""
QUICK = ("envs", "plot", "doctor")  # what runs always
FILES = {  # a reader's own
    "my_env.py": "examples/kernel_environment.py",
    "my_task.py": "examples/kernel_environment.py",
    "my_games.py": "tests/parallel_games.py",
    "walker.py": "examples/walker.py",
    "robot.py": "examples/own_robot.py",
    "pup.urdf": "examples/pup.urdf",
    "my_algo.py": "tests/train/my_algo.py",
}
MAZE = """
import gymnasium as gym

def make_maze():
    return gym.make("FrozenLake-v1")
"""
SHORT = {
    "train": ["--total-steps", "300", "--no-video"],
    "sweep": ["--total-steps", "2000", "--trials", "2"],
    "play": ["--max-steps", "5"],
    "bench": ["--seconds", "0.05", "--repeats", "1"],
    "check": ["--steps", "8", "--num-envs", "2"],
    "leaderboard": ["--list"],
    "tune": ["--seconds", "0.05", "--limit", "1"],
}
"""what makes a command short; it takes the place of what the page says of the same options"""
OTHER_PATHS = {
    "pettingzoo": "pettingzoo",
    "LunarLander": "headrace_box2d",
    "D1Basic": "vizdoom",
    "HealthGathering": "vizdoom",
    "--ray": "ray",
    "PointMaze": "gymnasium_robotics",
}
"""part of a command → the module that it needs"""


def commands(page: Path) -> list[str]:
    """The commands in a page's blocks, whole lines, without what follows a ``#``; and those in its text."""
    found = []
    for language, text in FENCED.findall(page.read_text()):
        if language != "python":
            lines = text.replace("\\\n", " ").splitlines()
            found += [shlex.join(shlex.split(line, comments=True)) for line in lines if line.startswith("headrace ")]
    told = [" ".join(words.split()) for words in INLINE.findall(FENCED.sub("", page.read_text()))]
    return list(dict.fromkeys([*found, *(shlex.join(shlex.split(words)) for words in told if WHOLE.match(words))]))


def short(words: list[str]) -> list[str]:
    """A command that does the same for a shorter time."""
    instead = SHORT.get(words[1], [])
    if "--help" in words or ("--resume" in words and words[1] == "train"):
        return words
    kept: list[str] = []
    dropping = False
    for word in words:
        dropping = word in instead if word.startswith("--") else dropping  # with its value
        if not dropping:
            kept.append(word)
    return kept + instead


def cases() -> list[object]:
    """Page and its commands; a page with slow ones is for the night."""
    found = []
    for page in PAGES:
        for number, line in enumerate(commands(page)):
            quick = line.split()[1] in QUICK and not {"a2c", "--labels"} & {*re.split(r"[ /]", line)}
            slow = () if quick else (pytest.mark.nightly,)
            found.append(pytest.param(page, line, marks=slow, id=f"{page.name} {number} {line[9:60]}"))
    return found


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Trains a short run of each kind once: one, or one of several seeds, or a sweep."""
    home = tmp_path_factory.mktemp("trained")
    tiny = ["--num-envs", "4", "--minibatch-size", "64", "--total-steps", "2048", "--no-video", "--quiet"]
    kinds = {
        "first": ["train", "CartPole-v1", *tiny],
        "a2c": ["train", "CartPole-v1", "--algo", "a2c", "--seeds", "1,2,7", "--total-steps", "2048", "--no-video"],
        "sweep": ["sweep", "Pendulum-v1", "--algo", "sac", "--space", "learning_rate=1e-4..1e-3:log", "--trials", "2",
                  "--total-steps", "2000", "--sampler", "random"],
        "cheetah": ["train", "HalfCheetah-v5", "--total-steps", "512", "--num-envs", "4", "--num-steps", "64",
                    "--no-video"],
        "tag": ["train", "TagGridWorld-v0", *tiny],
    }  # fmt: skip

    def train(kind: str) -> Path:
        if not (home / kind).exists():
            headrace([*kinds[kind], "--run-dir", kind], home)
        return home / kind

    return train


def headrace(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command; ends the test as skipped where something optional is missing."""
    code = "import sys; from headrace.cli.main import main; sys.exit(main(sys.argv[1:]))"
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "COLUMNS": "100"}
    done = programs.run(
        [sys.executable, "-c", code, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=1100
    )
    if done.returncode and ("pip install" in done.stderr or "no CUDA" in done.stderr):
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}{done.stderr}"
    return done


@pytest.mark.parametrize(("page", "line"), cases())
def test_a_command_of_a_page_runs(page: Path, line: str, tmp_path: Path, trained: Callable[[str], Path]) -> None:
    if "cuda" in line and not _has_cuda():
        pytest.skip("this machine has no CUDA device")
    if re.search(r"--ray (?!local)", line):
        pytest.skip("this machine belongs to no Ray cluster")
    for part, module in OTHER_PATHS.items():
        if part in line and importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    _prepare(tmp_path, page, line, trained)
    words = short(shlex.split(re.sub(r"runs/\S*…", "runs/first", line)))
    if words[1] == "watch" or "--3d" in words:
        _watched(words, tmp_path)
        return
    headrace(words[1:], tmp_path)
    if words[1] == "plot":
        out = words[words.index("--out") + 1] if "--out" in words else "plot.png"
        assert (tmp_path / out).stat().st_size > 1000


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.name)
def test_commands_named_by_pages_exist(page: Path) -> None:
    assert {line.split()[1] for line in commands(page)} <= COMMANDS.keys()


def test_a_command_is_made_shorter_and_otherwise_stays_equal() -> None:
    words = "headrace train Pong-v5 --total-steps 2000000 --seed 2".split()
    assert short([*words]) == "headrace train Pong-v5 --seed 2 --total-steps 300 --no-video".split()
    words = ["headrace", "train", "Pong-v5", "--actor-device", ""]
    assert short(words) == [*words, "--total-steps", "300", "--no-video"]
    for words in (["headrace", "train", "Pong-v5", "--help"], ["headrace", "train", "--resume", "runs/first"]):
        assert short(words) == words


def _prepare(folder: Path, page: Path, line: str, trained: Callable[[str], Path]) -> None:
    """The files and runs that a reader of the page has."""
    for name, source in FILES.items():
        shutil.copy(ROOT / source, folder / name)
    with (folder / "my_env.py").open("a") as file:
        file.write(MAZE)
    blocks = [text for language, text in FENCED.findall(page.read_text()) if language == "python"]
    if "arm.py" in line:
        (folder / "arm.py").write_text(blocks[0])
    for block in blocks:
        if block.startswith("def careful(") and "rewards.py" in line:
            (folder / "rewards.py").write_text(block.partition("\n\n\n")[0])
    own = '{"cats": {"agents": ["tagger"]}, "mouse": {"agents": ["runner"]}}'
    (folder / "policies.json").write_text(own)
    imported = ""
    for block in blocks:  # the files that the page's code writes
        imported += "".join(re.findall(r"^(?:import|from) .*\n", block, re.MULTILINE))
        if re.search(r"^Path\(\"[\w.]+\"\)\.write_text", block, re.MULTILINE):
            programs.run([sys.executable, "-c", imported + block], cwd=folder, check=True)
    asked = line.partition("--run-dir")[0]
    wanted = {"first"} if re.search(r"runs(?!/a2c|/sweep|/cheetah|/tag)", asked) or line == "headrace watch" else set()
    wanted |= {kind for kind in ("a2c", "sweep", "cheetah", "tag") if f"runs/{kind}" in asked}
    if "--labels" in line:
        wanted |= {"a2c"}
    for kind in wanted:
        shutil.copytree(trained(kind), folder / "runs" / kind)
    for named in re.findall(r"watch (runs/a) (runs/b)|watch (copied)|(runs/pole)", line):
        for run in filter(None, named):
            shutil.copytree(trained("first"), folder / run)


def _watched(words: list[str], folder: Path) -> None:
    """Show the page until it says where it is; ends the test as skipped where something optional is missing."""
    code = "import sys; from headrace.cli.main import main; sys.exit(main(sys.argv[1:]))"
    quietly = ["--no-browser"] if words[1] == "watch" else []
    process = programs.Program(
        [sys.executable, "-u", "-c", code, *words[1:], *quietly],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    told = []
    for line in process.stdout:
        told.append(line)
        if "http://" in line:
            process.send_signal(signal.SIGINT)
    status, said = process.wait(30), "".join(told)
    if status and "pip install" in said:
        pytest.skip(said.splitlines()[-1])
    assert "http://" in said and status in (0, 130), said


def _has_cuda() -> bool:
    torch = pytest.importorskip("torch")
    return torch.cuda.is_available()
