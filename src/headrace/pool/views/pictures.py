"""Rendering of pools with EnvPool's options: the environments shown, the size, and the camera."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.errors import OptionError
from headrace.pool.actions import check_env_ids
from headrace.pool.make_pool import check_int, make_pool
from headrace.pool.pool import Pool
from headrace.pool.state import seal, unseal

MOST = 8192  # greatest width and height in pixels
CAMERA, OTHER_NAMES = "render_camera_id", {"camera_id", "camera_name", "render_camera_name"}


class Pictures:
    """The renderer of a pool's environments.

    Args:
        pool: the pool.
        env_id: the environment shown by default.
        width, height: the size of frames in pixels; 0 for the task's own size. Frames are scaled to other sizes by
            averaging.
        camera_id: the camera, for a task whose options do not name one; -1 for a task with a single view.

    Raises:
        OptionError: a number is out of range.
    """

    def __init__(self, pool: Pool, env_id: int = 0, width: int = 0, height: int = 0, camera_id: int = -1):
        check_int("render_env_id", env_id, 0, pool.num_envs - 1)
        check_int("render_width", width, 0, MOST)
        check_int("render_height", height, 0, MOST)
        self.env_id, self.width, self.height = env_id, width, height
        self._pool = pool
        self._camera: int = pool.spec.options.get(CAMERA, -1)
        self._twins: dict[int, Pool] = {}  # other camera → a pool of one environment, which loads states to render them
        if camera_id != self._camera:
            self._check_camera(camera_id)

    def draw(self, env_ids: Any = None, camera_id: int | None = None) -> np.ndarray:
        """Returns RGB frames uint8[k, height, width, 3] of environments, from a camera of the task's model.

        Args:
            env_ids: the k environments; by default the one given at construction.
            camera_id: the camera's number; None for the pool's own camera.

        Raises:
            OptionError: there is no such camera, or the pool cannot be made again for another camera.
        """
        ids = self.env_id if env_ids is None else env_ids
        if camera_id is None or camera_id == self._camera:
            frames = self._pool.render(ids)
        else:
            self._check_camera(camera_id)
            frames = self._elsewhere(check_env_ids(ids, self._pool.num_envs), camera_id)
        height, width = self.height or frames.shape[1], self.width or frames.shape[2]
        return frames if frames.shape[1:3] == (height, width) else _scaled(frames, width, height)

    def close(self) -> None:
        """Closes the pools that render from other cameras."""
        for twin in self._twins.values():
            twin.close()
        self._twins.clear()

    def __reduce__(self) -> Any:
        return Pictures, (self._pool, self.env_id, self.width, self.height)

    def _check_camera(self, camera_id: int) -> None:
        if CAMERA not in self._pool.spec.options:
            raise OptionError(
                f"{self._pool.spec.task} is seen from one side only: camera_id must be -1, not {camera_id}"
            )

    def _elsewhere(self, env_ids: np.ndarray, camera_id: int) -> np.ndarray:
        pool, twin = self._pool, self._twins.get(camera_id)
        if twin is None:
            if pool._recipe is None:
                raise OptionError("camera_id is for pools that headrace.make has made")
            recipe = {key: value for key, value in pool._recipe.keywords.items() if key not in OTHER_NAMES}
            one = {"num_envs": 1, "batch_size": 0, "num_threads": 1, "seed": 0, CAMERA: camera_id}
            twin = self._twins[camera_id] = make_pool(**{**recipe, **one})
        frames = []
        for i, blob in zip(env_ids, pool.save_state(env_ids), strict=True):
            state, finished = unseal(blob, pool._key, int(i))
            twin.load_state([0], [seal(state, twin._key, finished)])
            frames.append(twin.render(0)[0])
        return np.stack(frames)


def _scaled(frames: np.ndarray, width: int, height: int) -> np.ndarray:
    from PIL import Image

    small = [Image.fromarray(frame).resize((width, height), Image.Resampling.BOX) for frame in frames]
    return np.stack([np.asarray(image) for image in small])
