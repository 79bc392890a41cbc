"""Scripts that train with processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nightly import rest_nightly

SETTINGS = "total_steps=64, quiet=True, video=False, tensorboard=False, evaluate_episodes=0, viewer=False"
WORKERS = f'headrace.train("Pendulum-v1", algo="sac", learning_starts=10, {SETTINGS})'
DEVICES = f'headrace.train("CartPole-v1", devices=("cpu", "cpu"), {SETTINGS})'


@pytest.mark.parametrize("call", rest_nightly([WORKERS, DEVICES], WORKERS), ids=["workers", "devices"])
def test_a_script_without_a_guard_is_told_in_one_sentence(tmp_path: Path, call: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nimport headrace\n\ntry:\n    " + call + "\n"
        "except headrace.errors.WorkerError as error:\n    sys.exit(str(error))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert 'if __name__ == "__main__":' in done.stderr and str(script) in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list((tmp_path / "runs").iterdir())  # no worker began a run of its own, and that of this one never began


@pytest.mark.nightly
def test_a_folder_is_free_again_for_the_mended_script(tmp_path: Path) -> None:
    script, call = tmp_path / "script.py", WORKERS.replace("algo=", 'run_dir="here", algo=')
    script.write_text(f"import headrace\n\n{call}\n")
    assert subprocess.run([sys.executable, str(script)], capture_output=True, cwd=tmp_path).returncode == 1
    script.write_text(f'import headrace\n\nif __name__ == "__main__":\n    print({call}.reason)\n')
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == "finished", done.stderr


def test_a_script_with_one_trains(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f'import headrace\n\nif __name__ == "__main__":\n    print({WORKERS}.reason)\n')
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == "finished", done.stderr
