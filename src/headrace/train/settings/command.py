"""Settings as options of a command line, and the command that trains with them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any


def option_of(setting: str) -> str:
    """Returns the option of a setting, such as ``--learning-rate`` of ``learning_rate``."""
    return f"--{setting.replace('_', '-')}"


def setting_of(option: str) -> str:
    """Returns the setting of an option, such as ``learning_rate`` of ``--learning-rate=0.1``."""
    return option.removeprefix("--").partition("=")[0].replace("-", "_")


def train_command(task: str, settings: Mapping[str, Any]) -> str:
    """Returns the ``headrace train`` command for a task and settings, name → value, quoted for a shell."""
    words = ["headrace", "train", task]
    for name, value in settings.items():
        words += _words(name, value)
    return shlex.join(words)


def _words(name: str, value: Any) -> list[str]:
    if name == "env_options":
        return [word for option, each in value.items() for word in ("--option", f"{option}={each}")]
    if isinstance(value, bool):
        return [option_of(name if value else f"no_{name}")]
    if isinstance(value, dict):
        return [option_of(name), json.dumps(value)]
    return [option_of(name), *map(str, value if isinstance(value, list | tuple) else (value,))]
