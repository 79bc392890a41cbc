"""Shows a run's MuJoCo model in 3D in a browser, played with the newest weights: ``headrace play RUN --3d``.

mjviser and viser draw it: the browser renders, so that this machine has little work. The extra ``viewer3d`` is needed.
"""

from __future__ import annotations

import contextlib
import io
import socket
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from headrace.errors import OptionError, StateError
from headrace.pool.executors.mujoco.arrows import COLOUR, HEADED, WIDTH
from headrace.pool.pool import Pool
from headrace.train.modules.action_masks import MASK
from headrace.train.play.agent import Agent, load_checkpoint
from headrace.train.play.evaluate import opened, playing_pool
from headrace.train.runs.words import return_text
from headrace.watch.player import LATE, Source
from headrace.watch.steering import KEYS, PUSHES, STOP, Steering, slider_step

HOST = "127.0.0.1"
MOST_FRAMES = 60.0  # greatest number of frames per second
TOLD = 0.25  # seconds between updates of the text
HELD = 0.5  # seconds for which the end of an episode is shown
VIEW = np.array((0.6, -2.2, 0.8))  # initial position of the camera, in multiples of the robot's size
BEHIND = np.array((-2.2, 0.0, 0.9))  # that of the camera that turns with the robot
KEYS_IN_3D = ("i", "k", "j", "l", "u", "o", STOP, PUSHES)  # those of `KEYS` with which viser does not move its camera
HELP_IN_3D = "I K: forwards, backwards · J L: sideways · U O: turn · space: stop · P: push"
CAMERA_KEYS = "W A S D Q E and arrows move the camera"
SHOWN = ("qpos", "mocap_pos", "mocap_quat")
"""the arrays of a simulation that its picture depends on"""


def show(
    run_dir: str | Path,
    *,
    which: str = "newest",
    deterministic: bool = True,
    seed: int = 1000,
    port: int = 0,
    env_options: Mapping[str, Any] | None = None,
    trust: bool = False,
    ready: Callable[[str], object] = print,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Plays a run's agent and shows it in 3D until ``stop()`` returns True or Ctrl-C; all browsers show the same.

    Args:
        run_dir: the run folder.
        which: ``"newest"`` for the latest weights, also of a run that trains, or ``"best"`` for the best checkpoint.
        deterministic: whether to take the most likely actions.
        seed: the seed of the environment.
        port: the port on this machine; 0 for any free port.
        env_options: options of the task in place of the run's, such as ``{"push": 0.5}``.
        trust: as in `headrace.train.resume`.
        ready: a function that is called with the page's URL.
        stop: a function that is called at every step; playing ends when it returns True.

    Raises:
        ImportError: mjviser is not installed.
        OptionError: the task is not one of MuJoCo's, or the run has no checkpoint yet.
        TrustError: as in `headrace.train.resume`.
    """
    import viser

    run, config = opened(run_dir, env_options, trust)
    source = Source(run, "live" if which == "newest" else which)
    with playing_pool(config, num_envs=1, num_threads=1, seed=seed, autoreset="next_step") as pool:
        model = _model_of(pool)
        agent = Agent(config, pool.spec, load_checkpoint(run, which))
        label = f"{config.task}: {run.path}"
        with _silence():
            server = viser.ViserServer(host=HOST, port=port or _free_port(), label=label)
        try:
            pool.reset()
            screen = _Screen(server, model, pool)
            ready(f"http://{HOST}:{server.get_port()}")
            _play(pool, agent, source, screen, deterministic, stop)
        finally:
            with _silence():
                server.stop()


class _Screen:
    """The scene that browsers show: the robot, and a text panel."""

    def __init__(self, server: Any, model: Any, pool: Pool):
        import mujoco
        from mjviser import ViserMujocoScene

        self._mujoco, self._model, self._pool = mujoco, model, pool
        self._data = mujoco.MjData(model)  # pyright: ignore[reportAttributeAccessIssue]
        self._scene = ViserMujocoScene(server, model, num_envs=1)
        self._far = self._size()
        server.initial_camera.position = tuple(VIEW * self._far)
        server.initial_camera.look_at = (0.0, 0.0, 0.0)  # the scene follows a robot that walks
        server.gui.configure_theme(show_share_button=False)  # the button would contact another server
        self._words = server.gui.add_markdown("")
        self._names = [name for name in SHOWN if name in pool.state_arrays()]
        self._drawn = self._told = 0.0
        self._server = server
        self._over: dict[float, Any] = {}
        self._add_controls(server.gui, Steering(pool))

    def _add_controls(self, gui: Any, steering: Steering) -> None:
        self.steering, controls = steering, steering.controls
        self._steered = gui.add_checkbox("steer", False, visible=bool(controls.ranges))
        self._steered.on_update(self._hand_over)
        self._chase = gui.add_checkbox("from behind", False, visible=bool(controls.ranges))
        self._chase.on_update(self._look_from_behind)
        self._sliders = [
            gui.add_slider(label, low, high, slider_step(low, high), min(max(0.0, low), high))
            for label, low, high in controls.ranges
        ]
        for slider in self._sliders:
            slider.on_update(self._hand_over)
        if controls.can_push:
            gui.add_button("push").on_click(partial(self._press, PUSHES))
        if controls.ranges:
            gui.add_markdown(f"{HELP_IN_3D}\n\n{CAMERA_KEYS}")
        for key in KEYS_IN_3D:
            move = KEYS[key]
            works = controls.can_push if key == PUSHES else move is None or move[0] < len(controls.ranges)
            if works and (controls.ranges or key == PUSHES):
                hotkey = "space" if key == STOP else key.upper()
                gui.add_command(f"steer: {hotkey}", hotkey=hotkey).on_trigger(partial(self._press, key))

    async def _hand_over(self, event: Any) -> None:
        """Lets the person command who has moved a slider, or the task again; `event.client` is None for code."""
        if event.client is None:
            return
        if event.target is not self._steered:
            self._steered.value = True
        ranges = [(low, high) for _, low, high in self.steering.controls.ranges]
        values = [min(max(s.value, low), high) for s, (low, high) in zip(self._sliders, ranges, strict=True)]
        self.steering.take({"command": values if self._steered.value else None})

    async def _look_from_behind(self, event: Any) -> None:
        """Moves the camera of who has ticked it behind the robot, with which the scene then turns for all."""
        if event.client is not None and self._chase.value:
            event.client.camera.position = tuple(BEHIND * self._far)
            event.client.camera.look_at = (0.0, 0.0, 0.0)

    def _draw_scene(self) -> None:
        """Draws the robot, which faces the x axis if the camera turns with it: ground and arrows turn about it."""
        data, frame = self._data, self._scene.fixed_bodies_frame
        turn, shift = np.array((1.0, 0.0, 0.0, 0.0)), np.zeros(3)
        if self._chase.value:
            w, x, y, z = data.qpos[3:7]
            half = np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)) / 2
            turn = np.array((np.cos(half), 0.0, 0.0, -np.sin(half)))
            self._mujoco.mju_mulQuat(data.qpos[3:7], turn, data.qpos[3:7].copy())
            self._mujoco.mju_rotVecQuat(shift, data.qpos[:3], turn)
            shift = data.qpos[:3] - shift
        self._mujoco.mj_forward(self._model, data)
        with self._server.atomic():
            self._scene.update_from_mjdata(data)  # which puts the frame where it would be without the turn
            frame.wxyz, frame.position = turn, frame.position + shift

    async def _press(self, key: str, _: object) -> None:  # in the server's one thread, as `_hand_over`
        self.steering.take({"key": key})
        self._steered.value = self.steering.command is not None
        for slider, value in zip(self._sliders, self.steering.command or (), strict=False):
            slider.value = value

    def _draw_arrows(self, rows: np.ndarray) -> None:
        """Draws the arrows of a picture, float32 [n, 12], the rods among them as lines."""
        rows = rows[rows[:, WIDTH] > 0]
        scene, frame = self._server.scene, self._scene.fixed_bodies_frame.name  # whose children are in the world
        for kind, add in ((1.0, scene.add_arrows), (0.0, scene.add_line_segments)):
            chosen = rows[rows[:, HEADED] == kind]
            if kind in self._over and not len(chosen):
                self._over.pop(kind).remove()
            if len(chosen):
                ends, width = chosen[:, :6].reshape(-1, 2, 3), float(chosen[:, WIDTH].max())
                colours = (255 * chosen[:, COLOUR][:, :3]).astype(np.uint8)
                if kind:
                    head = {"shaft_radius": width / 2, "head_radius": width, "head_length": 2.5 * width}
                    how = {"colors": colours, **head}
                else:
                    dark = (colours.astype(int) ** 2 // 255).astype(np.uint8)  # lines are drawn without a shadow
                    how = {"colors": dark[:, None].repeat(2, 1), "thickness": 2 * width}
                self._over[kind] = add(f"{frame}/over{kind:g}", ends, **how)

    def _size(self) -> float:
        """Returns the greatest extent in m of all bodies that move, or of the whole model if none does."""
        model, data = self._model, self._data
        self._mujoco.mj_kinematics(model, data)
        moves = (model.body_weldid[model.geom_bodyid] != 0) & (model.geom_rbound > 0)
        if not moves.any():
            return float(model.stat.extent)
        places, radii = data.geom_xpos[moves], model.geom_rbound[moves, None]
        return float(((places + radii).max(0) - (places - radii).min(0)).max())

    def draw(self, words: str, at_once: bool) -> None:
        """Shows the environment's state, at most `MOST_FRAMES` times a second, and the text ``words``.

        With ``at_once``, both are shown without regard to the time of the last update.
        """
        now = time.monotonic()
        if now - self._drawn < 1 / MOST_FRAMES and not at_once:
            return
        for name, rows in self._pool.state_arrays(self._names).items():
            there = getattr(self._data, name)
            there[...] = rows[0].reshape(there.shape)
        self._draw_scene()
        self._draw_arrows(self._pool._executor.arrows(np.zeros(1, np.int64))[0])  # pyright: ignore[reportAttributeAccessIssue]
        self._drawn = now
        if now - self._told >= TOLD or at_once:
            self._words.content, self._told = words, now


def _play(
    pool: Pool, agent: Agent, source: Source, screen: _Screen, deterministic: bool, stop: Callable[[], bool]
) -> None:
    obs, info = pool.reset()
    episode, steps, earned, trained, over = 1, 0, 0.0, 0, False
    due = time.monotonic()
    while not stop():
        weights = source.newer()
        if weights is not None:
            with contextlib.suppress(StateError):  # the weights may be of a new run in the same folder
                agent.load(weights.model)
                trained = weights.step
        screen.steering.apply()
        obs, reward, terminated, truncated, info = pool.step(agent.act(obs, deterministic, info.get(MASK)))
        screen.steering.apply()
        if over:
            episode, steps, earned = episode + 1, 0, 0.0
        else:
            steps, earned = steps + 1, earned + float(agent.score(reward)[0])
        over = bool(terminated[0] or truncated[0])
        words = f"**{pool.spec.task}** after {trained:,} steps of training\n\nepisode {episode}, step {steps:,}"
        screen.draw(f"{words}\n\nreturn {return_text(earned)}", at_once=over)
        agent.reset([over])
        due += 1 / pool.spec.render_fps + (HELD if over else 0.0)
        now = time.monotonic()
        time.sleep(max(0.0, due - now))
        due = max(due, now - LATE)


def _silence() -> contextlib.AbstractContextManager[object]:
    """Returns a context in which viser's banner, on standard output, is discarded."""
    return contextlib.redirect_stdout(io.StringIO())


def _model_of(pool: Pool) -> Any:
    """Returns the MuJoCo model of a pool's environments.

    Raises:
        OptionError: the environments have no MuJoCo model.
    """
    from headrace.pool.executors.mujoco.executor import MujocoExecutor

    if not isinstance(pool._executor, MujocoExecutor):
        raise OptionError(f"{pool.spec.task} is no MuJoCo task: headrace watch shows it in pictures")
    return pool._executor.model


def _free_port() -> int:
    """Returns a port that is free now, since viser treats port 0 as 8080 and takes the first free one from there."""
    with socket.create_server((HOST, 0)) as found:
        return found.getsockname()[1]
