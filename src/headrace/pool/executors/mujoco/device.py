"""Runs a MuJoCo task with MuJoCo Warp, in torch's memory, on a CPU or a GPU.

The task's functions are the same as on threads. Autoreset, truncation and seeds, which the engine handles there for
each environment, are handled here for all environments together, with masks. On a GPU no step waits for the device.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import warp as wp

import headrace.pool.executors.mujoco.program as program
from headrace.errors import EnvironmentFailure, OptionError, RenderError
from headrace.pool.actions import ACTION, action_fields
from headrace.pool.batch import FINAL, INFO
from headrace.pool.executors.device.executor import DeviceExecutor
from headrace.pool.executors.device.memory import DeviceMemory, DeviceTable
from headrace.pool.executors.kernels.diagnostics.mistakes import mistakes_named
from headrace.pool.executors.kernels.launch import COMPILING, Run, quiet, record, view_of
from headrace.pool.executors.kernels.program import RESEED, STEP, Episodes
from headrace.pool.executors.kernels.random import Streams
from headrace.pool.executors.mujoco.declared import Declarations, acts
from headrace.pool.executors.mujoco.fields import MjModel
from headrace.pool.executors.mujoco.first_steps import load_and_try
from headrace.pool.executors.mujoco.memory import StepOutputs, checked, scalars_of
from headrace.pool.executors.mujoco.program import MujocoEnv, Outcome, build_kernel_for_many
from headrace.pool.executors.mujoco.warp_physics import WarpPhysics
from headrace.pool.spec import PoolSettings, TaskSpec

MOST_STARTS = 1000
BLOCK = 256  # threads of a launch on a GPU


class WarpExecutor(DeviceExecutor):
    """The executor of a `MujocoEnv` over `WarpPhysics`.

    Args:
        observation, shown: see `headrace.pool.executors.mujoco.memory.StepOutputs`.
    """

    def __init__(
        self,
        env: MujocoEnv,
        model: MjModel,
        observation: gym.Space,
        shown: gym.Space,
        spec: TaskSpec,
        settings: PoolSettings,
    ):
        n, device = settings.num_envs, torch.device(settings.device)
        if env.accept is not None and device.type == "cuda":
            raise OptionError(
                f"{spec.task} looks at its starts and may refuse them: leave the device out, it needs threads"
            )
        if spec.options["from_pixels"]:
            raise OptionError(f"{spec.task} is drawn by threads: leave the device out, or from_pixels")
        scalars = scalars_of(env, model, spec)
        hidden = checked(env, observation, spec, scalars)
        memory = DeviceMemory(device)
        table, zeros = memory.table, memory.zeros
        state, streams = table(env.state, n, env.shapes, scalars, env.tables), table(Streams, n)
        memory.put(streams.arrays["seed"], settings.seeds)
        fields = action_fields(spec.action)
        actions = {name: zeros((n, *shape), dtype) for name, (dtype, shape) in fields.items()}
        super().__init__(env, spec, settings, state, streams, table(Episodes, n), actions, env.bounds)
        self._spec, self._settings = spec, settings
        self._declared = Declarations(env, model, n, memory)
        self._seen = StepOutputs(env, observation, shown, spec, hidden, self._declared.means, n, zeros)
        self._physics = WarpPhysics(env, model, n, device, self._declared.varied)
        self._outcome = table(Outcome, n)
        self._stepping, self._starting, self._mask = (zeros((n,), np.bool_) for _ in range(3))
        self._reward, self._terminated = zeros((n,), np.float32), zeros((n,), np.bool_)
        self._truncated, self._elapsed = zeros((n,), np.bool_), self.episodes.arrays["elapsed"]
        self._taken = torch.zeros_like(self.actions[ACTION])
        self._commands = self._recorded(model, observation)
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    def record(self, requests: DeviceTable, tensors: Mapping[str, torch.Tensor], rows: int) -> Run:
        return partial(self._serve, requests, tensors, rows)

    def render(self, env_ids: np.ndarray) -> np.ndarray:
        raise RenderError(f"{self._spec.task} on a device has no rendering: load its state into a pool on threads")

    def state_arrays(self) -> dict[str, torch.Tensor]:
        return {**self._physics.rows(), **super().state_arrays()}

    def memory(self) -> list[torch.Tensor]:
        seen = [*self._seen.newest.values(), *self._seen.stacks.values()]
        rest = [*self._physics.rows().values(), *seen, *self._declared.kept]
        return [*super().memory(), *(t.view(len(t), -1).view(torch.uint8) for t in rest)]

    # -- a call ----------------------------------------------------------------------------------

    def _serve(self, requests: DeviceTable, tensors: Mapping[str, torch.Tensor], rows: int) -> None:
        """Serves the first ``rows`` requests, and writes the results to the same rows of these tensors."""
        ids = requests.arrays["env_id"][:rows].long()
        self._take(requests, ids, rows)
        if requests is not self.resets:
            self._step()
        if self._settings.autoreset == "same_step":
            over = self._stepping & (self._terminated | self._truncated)
            self._write_seen(tensors, ids, FINAL)
            tensors[f"{FINAL}elapsed_step"].copy_(self._elapsed[ids])
            self._starting |= over
        if self.device.type == "cuda" or bool(self._starting.any()):
            self._start()
        self._write(tensors, ids)

    def _take(self, requests: DeviceTable, ids: torch.Tensor, rows: int) -> None:
        """Records which environments step and which start an episode, and copies their actions and seeds."""
        command = requests.arrays["command"][:rows]
        steps = command == int(STEP)
        if self._settings.autoreset == "next_step":
            steps &= ~self.over[ids]
        for mask, wanted in ((self._stepping, steps), (self._starting, ~steps)):
            mask.zero_()
            mask[ids] = wanted
        reseed = command == int(RESEED)
        seed, drawn = self.streams.arrays["seed"], self.streams.arrays["drawn"]
        seed[ids] = torch.where(reseed, requests.arrays["seed"][:rows], seed[ids])
        drawn[ids] = drawn[ids].masked_fill(reseed, 0)
        self._taken[ids] = self.actions[ACTION][:rows]
        self._reward.zero_()
        self._terminated.zero_()
        self._truncated.zero_()

    def _step(self) -> None:
        stepping = self._stepping
        for _ in range(self._spec.options["action_repeat"]):
            self._advance(stepping & ~self._terminated)
        self._elapsed += stepping
        if limit := self._spec.max_episode_steps:
            self._truncated.copy_(stepping & (self._elapsed >= limit))
        self.over.copy_(torch.where(stepping, self._terminated | self._truncated, self.over))
        self._stack(stepping, from_nothing=False)

    def _advance(self, stepping: torch.Tensor) -> None:
        """Advances the environments picked, bool [N], to their next reward, and adds it."""
        physics = self._physics
        before = physics.save()
        if not acts(self.env):
            physics.set_controls(self._taken, stepping)
        else:
            physics.pull()  # a state may have been loaded since the last step
            self._command(program.ACT, stepping)
            physics.push()
        physics.step(self._spec.options["frame_skip"])
        warning = physics.warnings()
        physics.restore(before, ~stepping)
        physics.pull()
        self._seen.warning.copy_(torch.where(stepping, warning, self._seen.warning))
        sound = stepping & (warning == 0)
        self._command(program.STEP, sound)  # the others keep their last observation, and their episode ends
        self._reward += self._outcome.arrays["reward"].masked_fill(~sound, 0.0)
        self._terminated |= (self._outcome.arrays["terminated"] & sound) | (stepping & ~sound)

    def _start(self) -> None:
        physics, starting = self._physics, self._starting
        before = physics.save()
        for f in self._seen.described:
            if f.name.startswith(INFO):  # a step's info is zero before the first step
                rows = self._seen.newest[f.name]
                rows.masked_fill_(starting.view(-1, *(1,) * (rows.dim() - 1)), 0)
        left = starting
        for _ in range(MOST_STARTS):
            physics.restore(physics.initial, left)
            physics.pull()
            self._command(program.RESET, left)
            physics.push()
            physics.compute_constants()
            physics.begin()
            physics.pull()
            if self.env.accept is None:
                break
            self._command(program.ACCEPT, left)
            left = left & ~self._outcome.arrays["accepted"]
            if not bool(left.any()):
                break
        else:
            raise EnvironmentFailure(f"none of {MOST_STARTS:,} starts of an episode was acceptable")
        if self.env.settling_steps:
            physics.begin(self.env.settling_steps)
            physics.pull()
        self._command(program.OBSERVE, starting)
        physics.restore(before, ~starting)
        self._elapsed.masked_fill_(starting, 0)
        self.over.logical_and_(~starting)
        self._stack(starting, from_nothing=True)

    def _stack(self, picked: torch.Tensor, from_nothing: bool) -> None:
        """Appends the latest observations of the environments picked, bool [N], to their stacks."""
        for name, stack in self._seen.stacks.items():
            newest = self._seen.newest[name].unsqueeze(1)
            kept = newest.expand_as(stack[:, 1:]) if from_nothing else stack[:, 1:]
            where = picked.view(-1, *(1,) * (stack.dim() - 1))
            stack.copy_(torch.where(where, torch.cat([kept, newest], 1), stack))

    def _write(self, tensors: Mapping[str, torch.Tensor], ids: torch.Tensor) -> None:
        self._write_seen(tensors, ids, "")
        for name, values in (
            ("reward", self._reward),
            ("terminated", self._terminated),
            ("truncated", self._truncated),
            ("elapsed_step", self._elapsed),
        ):
            tensors[name].copy_(values[ids])
        tensors["env_id"].copy_(ids)

    def _write_seen(self, tensors: Mapping[str, torch.Tensor], ids: torch.Tensor, prefix: str) -> None:
        for f in self._seen.described:
            shown = self._seen.stacks.get(f.name, self._seen.newest[f.name])
            tensors[prefix + f.name].copy_(shown[ids])

    # -- launches --------------------------------------------------------------------------------

    def _recorded(self, model: MjModel, observation: gym.Space) -> dict[int, Run]:
        """Returns command → the launch of the task's function for all picked environments."""
        device = str(self.device)
        block = 1 if device == "cpu" else BLOCK
        with COMPILING, mistakes_named(self.env):
            kernel = build_kernel_for_many(self.env, self._physics.struct)
        load_and_try(self.env, model, observation, self._spec, kernel, device, block)
        with quiet():
            taken, picked = view_of(self._taken, wp.float64), view_of(self._mask, wp.bool)
        tables = (self._physics.arrays, self.state.struct, self.streams.struct, taken, self._outcome.struct)

        def launch(command: Any) -> Run:
            arguments = [*tables, self._seen.view, self._declared.struct, picked, int(command)]
            return record(kernel, len(self._mask), arguments, device, block)

        known = (program.RESET, program.ACCEPT, program.ACT, program.STEP, program.OBSERVE)
        return {int(command): launch(command) for command in known}

    def _command(self, command: Any, picked: torch.Tensor) -> None:
        self._mask.copy_(picked)
        self._commands[int(command)]()
