"""What a run writes."""

from __future__ import annotations

from headrace.train.settings.fields import record, setting
from headrace.train.settings.values import require

LOGGERS = ("tensorboard", "wandb", "trackio")


@record("files", shared=True)
class Files:
    """What the run writes."""

    log_steps: int = setting(
        10_000,
        "Most agent steps between two lines of metrics. A run has at least a hundred lines; with workers, at least one "
        "every two seconds.",
        low=1,
    )
    checkpoint_seconds: float = setting(
        30.0, "Seconds between two checkpoints; one more is written at the end.", low=0, continuable=True
    )
    keep_checkpoints: int = setting(
        2, "Number of newest checkpoints that are kept, beside the best one.", low=0, continuable=True
    )
    metrics: tuple[str, ...] = setting(
        (),
        "Keys of info whose numbers, with an episode's last step, are reported as means over the last stop_episodes "
        "episodes: on the screen, on the page and by all loggers. is_success is in any case.",
        continuable=True,
    )
    tensorboard: bool = setting(True, "Write TensorBoard events beside metrics.jsonl, if tensorboard is installed.")
    log: tuple[str, ...] = setting(
        (),
        "Further destinations of the metrics: wandb (Weights & Biases; WANDB_MODE=offline keeps them in the run "
        "folder), trackio, tensorboard.",
        continuable=True,
    )
    video: bool = setting(
        True,
        "Record a few episodes as videos in the run folder, if PyAV is installed: one of the trained agent at the end, "
        "and with samplers some during training.",
        continuable=True,
    )
    viewer: bool = setting(
        True,
        "Show the run on a page in a browser on this machine; nothing is played or drawn while no page is open.",
        continuable=True,
    )

    def __post_init__(self) -> None:
        for each in self.log:
            require(each in LOGGERS, "log", each, f"one or more of {', '.join(LOGGERS)}")
