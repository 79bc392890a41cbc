"""The replay of steps beside a plain list of all steps: every transition, through ends, cuts and overwriting."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.train.storage.step_replay import StepReplay

ENVS, STEPS, GAMMA = 2, 40, 0.5
GOES_ON, TERMINATES, TRUNCATES, CUT = "-", "x", "|", "c"


@dataclass
class Seen:
    """A row of one environment: which life and episode it belongs to, and how the step from it ended."""

    episode: int
    reward: float
    ends: str
    last: bool


def image_of(t: int, env: int) -> int:
    return (t * ENVS + env) % 256


class Model:
    """Transitions by looking at the list of rows."""

    def __init__(self, rows: list[list[Seen]], n_step: int, stack: int):
        self.rows, self.n_step, self.stack = rows, n_step, stack

    def drawn(self) -> list[tuple[int, int]]:
        """Rows (t, env) that can be drawn: not about to be overwritten, with n rows after them, and a next one."""
        whole = max(0, len(self.rows) + STEPS // 32 + 2 - STEPS)
        oldest = whole + self.stack - 1 if whole else 0
        times = range(oldest, len(self.rows) - self.n_step)
        return [(t, env) for t in times for env in range(ENVS) if self.leads_on(t, env)]

    def leads_on(self, t: int, env: int) -> bool:
        here, after = self.rows[t][env], self.rows[t + 1][env]
        return not here.last and here.episode == after.episode

    def transition(self, t: int, env: int) -> tuple[float, float, int]:
        """The n-step reward, the discount, and the row that follows."""
        reward, u = 0.0, t
        while u < t + self.n_step and self.leads_on(u, env):
            reward += GAMMA ** (u - t) * self.rows[u][env].reward
            u += 1
            if self.rows[u - 1][env].ends == TERMINATES:
                return reward, 0.0, u
        return reward, GAMMA ** (u - t), u

    def pictures(self, t: int, env: int) -> list[int]:
        """The stack that is seen at a row, oldest first."""
        begin = t
        while begin > 0 and self.rows[begin - 1][env].episode == self.rows[t][env].episode:
            begin -= 1
        return [image_of(max(t - lag, begin), env) for lag in range(self.stack - 1, -1, -1)]


def play(replay: StepReplay, script: list[str]) -> list[list[Seen]]:
    """Write the steps of a script, and note them down."""
    writer, rows = replay.writer(0), []
    writer.begin()
    episodes, over = [0] * ENVS, [False] * ENVS
    count = 0
    for line in script:
        if line == CUT:
            writer = replay.writer(0)
            writer.begin()
            count += 1
            episodes, over = [count] * ENVS, [False] * ENVS
            continue
        t, row, noted = len(rows), writer.row, []
        ends = [GOES_ON if over[env] else line[env] for env in range(ENVS)]
        for env in range(ENVS):
            noted.append(Seen(episodes[env], 1 + t * ENVS + env, ends[env], over[env]))
            row.observation[env], row.reward[env] = image_of(t, env), noted[env].reward
            row.action[env] = (t * ENVS + env) % 5
        if replay.layout.images:
            model = Model([*rows, noted], 1, replay.layout.frame_stack)
            assert writer.stack()[:, :, 0, 0].tolist() == [model.pictures(t, env) for env in range(ENVS)]
        given = np.array(list(line))  # what it says of an episode that is over already counts for nothing
        writer.publish(given == TERMINATES, given == TRUNCATES, t)
        for env in range(ENVS):
            if over[env]:
                count += 1
                episodes[env] = count
            over[env] = ends[env] != GOES_ON
        rows.append(noted)
    return rows


lines = st.one_of(st.just(GOES_ON * ENVS), st.text(GOES_ON * 3 + TERMINATES + TRUNCATES, min_size=ENVS, max_size=ENVS))
scripts = st.integers(8, 110).flatmap(
    lambda size: st.lists(st.one_of(lines, lines, lines, lines, lines, st.just(CUT)), min_size=size, max_size=size)
)


@settings(max_examples=150, deadline=None)
@given(scripts, st.integers(1, 4), st.sampled_from([0, 1, 2, 4]))
def test_every_drawn_transition_is_one_of_the_recorded_script(script, n_step, stack):
    images = stack > 0
    space = gym.spaces.Box(0, 255, (1, 2, 2), np.uint8) if images else gym.spaces.Discrete(256)
    replay = StepReplay(space, gym.spaces.Discrete(5), 1, STEPS, ENVS, n_step, GAMMA, max(1, stack))
    model = Model(play(replay, script), n_step, max(1, stack))
    wanted = model.drawn()
    assert replay.held == len(wanted)
    assert replay.steps == sum(model.leads_on(t, env) for t in range(len(model.rows) - 1) for env in range(ENVS))
    if not wanted:
        return
    drawn = replay.draw((300,), torch.Generator().manual_seed(0))
    assert set(drawn.tolist()) <= {t * ENVS + env for t, env in wanted}
    read = replay.read(torch.tensor([t * ENVS + env for t, env in wanted]))
    assert read.actions.tolist() == [(t * ENVS + env) % 5 for t, env in wanted]
    spans = [model.transition(t, env) for t, env in wanted]
    assert read.rewards.tolist() == [reward for reward, _, _ in spans]
    assert read[3].tolist() == [discount for _, discount, _ in spans]
    for seen, times in ((read.inputs, [t for t, _ in wanted]), (read.next_observations, [u for _, _, u in spans])):
        places = [(t, env) for t, (_, env) in zip(times, wanted, strict=True)]
        if images:
            assert (seen == seen[:, :, :1, :1]).all()
            assert seen[:, :, 0, 0].tolist() == [model.pictures(*place) for place in places]
        else:
            assert seen.tolist() == [image_of(*place) for place in places]
