"""Default cameras of Gymnasium's MuJoCo tasks.

The default is the model's camera "track", which follows the robot, or for models without one a free camera
placed as in Gymnasium. (Gymnasium 1.4 uses the free camera for all models by default, so that running robots
leave its view.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.errors import OptionError
from headrace.pool.executors.mujoco.pictures import Camera

CONFIG = "default_camera_config"  # Gymnasium's name of the option
FREE = ("distance", "azimuth", "elevation", "lookat")

# gymnasium.envs.mujoco.*.DEFAULT_CAMERA_CONFIG, of models without the camera "track"
PLACES: dict[str, dict[str, Any]] = {
    "InvertedDoublePendulum-v4": {"distance": 4.1225, "lookat": (0.0, 0.0, 0.1225)},
    "InvertedPendulum-v4": {"distance": 2.04},
    "InvertedPendulum-v5": {"distance": 2.04},
    "Pusher-v4": {"distance": 4.0},
    "Pusher-v5": {"distance": 4.0},
}


def camera(task: str, config: Any = None) -> Camera:
    """Returns the default camera of a task, or a free camera with these settings.

    Args:
        task: the task's name.
        config: Gymnasium's ``default_camera_config``, a mapping with some of ``distance`` (m), ``azimuth`` and
            ``elevation`` (degrees), ``lookat`` (m, three numbers) and ``trackbodyid`` (ignored); or None.

    Raises:
        OptionError: ``config`` is not such a mapping.
    """
    if config is None:
        return Camera("track", on_geoms=True, **PLACES.get(task, {}))
    rule = f"{CONFIG} of {task} must be a dict with some of {', '.join(FREE)}, not {config!r}"
    if not isinstance(config, Mapping) or not set(config) <= {*FREE, "trackbodyid"}:
        raise OptionError(rule)
    chosen: dict[str, Any] = {}
    try:  # trackbodyid has no effect, as in Gymnasium: a free camera tracks no body
        for name in FREE:
            if name in config:
                chosen[name] = _point(config[name]) if name == "lookat" else float(config[name])
    except (TypeError, ValueError):
        raise OptionError(rule) from None
    return Camera(on_geoms=True, **chosen)


def _point(value: Any) -> tuple[float, float, float]:
    x, y, z = map(float, value)
    return x, y, z
