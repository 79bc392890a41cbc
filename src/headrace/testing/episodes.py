"""Checks of episodes: autoreset, truncation, spaces, saved states, rendering."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import gymnasium as gym
import numpy as np

from headrace.errors import EnvironmentFailure, OptionError, SequenceError, StateError
from headrace.pool.pool import Pool
from headrace.pool.spec import bounds
from headrace.pool.structure import assembled, is_array, leaf_name, leaves, row_of
from headrace.pool.views.make import make_spec
from headrace.testing.report import NotApplicable, conformance
from headrace.testing.trial import (
    FINAL,
    Frame,
    Mismatch,
    Trial,
    advance,
    merged,
    observations,
    play,
    same,
    stack,
    start,
    text,
)


def _ended(one: Frame) -> np.ndarray:
    return one["terminated"] | one["truncated"]


def _by_hand(trial: Trial, told: Callable[[Pool, np.ndarray, Frame | None], Frame], waits: bool) -> list[Frame]:
    """Returns the frames of a run with autoreset disabled, in which ``told`` resets environments.

    Environments are reset immediately, or if ``waits`` is set in place of their next step.
    """
    frames = []
    with trial.make(autoreset="disabled") as pool:
        frames.append(start(pool))
        over = np.zeros(trial.num_envs, np.bool_)
        for action in trial.actions():
            going = np.flatnonzero(~over) if waits else np.arange(trial.num_envs)
            stepped = advance(pool, row_of(action, going), going) if going.size else None
            frames.append(told(pool, over, stepped))
            over = np.zeros(trial.num_envs, np.bool_)
            if waits and stepped is not None:
                over[going] = _ended(stepped)
    return frames


def _begun(pool: Pool, ids: np.ndarray, like: Frame | None) -> Frame:
    """Resets environments; returns the frame of a step with reward 0 that ends no episode."""
    fresh = start(pool, ids)
    spec = pool.spec
    nothing = np.zeros(len(ids), np.bool_)
    return {
        "reward": np.zeros((len(ids), *spec.reward_shape), np.float32),
        "terminated": nothing,
        "truncated": nothing,
        **fresh,
    }


def _expect_new_games(trial: Trial) -> None:
    """Skips a check that compares autoreset with manual resets, for tasks in which the two differ by design."""
    if make_spec(trial.task, **trial.options).options.get("episodic_life"):
        raise NotApplicable("after a lost life autoreset plays on in the same game, a reset by hand begins another")


@conformance
def autoreset_next_step(trial: Trial) -> None:
    """Checks that the step after an episode's end ignores its action and begins the next episode."""

    _expect_new_games(trial)

    def told(pool: Pool, over: np.ndarray, stepped: Frame | None) -> Frame:
        if not over.any():
            assert stepped is not None
            return stepped
        fresh = _begun(pool, np.flatnonzero(over), stepped)
        return merged([fresh, stepped]) if stepped is not None else fresh

    expected = _by_hand(trial, told, waits=True)
    with trial.make(autoreset="next_step") as pool:
        seen = play(pool, trial.actions())
    same(expected, seen, "next_step must give what resetting by hand in the step after gives")


@conformance
def autoreset_same_step(trial: Trial) -> None:
    """Checks that the step that ends an episode begins the next one and returns the last observation and info."""

    _expect_new_games(trial)

    def told(pool: Pool, over: np.ndarray, stepped: Frame | None) -> Frame:
        assert stepped is not None
        ended = _ended(stepped)
        described = [n for n in stepped if n not in ("reward", "terminated", "truncated", "env_id")]
        final = {"final": ended}
        for name in described:
            mask = ended.reshape(-1, *(1,) * (stepped[name].ndim - 1))
            final[FINAL + name] = np.where(mask, stepped[name], np.zeros((), stepped[name].dtype))
        now = {name: array.copy() for name, array in stepped.items()}
        if ended.any():
            fresh = start(pool, np.flatnonzero(ended))
            for name in described:
                now[name][ended] = fresh[name]
        return now | final

    expected = _by_hand(trial, told, waits=False)
    with trial.make(autoreset="same_step") as pool:
        seen = play(pool, trial.actions())
    same(expected, seen, "same_step must give what resetting by hand at once gives, and keep what was last")


@conformance
def autoreset_disabled(trial: Trial) -> None:
    """Checks that stepping an environment whose episode has ended raises, and that ``reset_mask`` resets it."""
    with trial.make(autoreset="disabled") as pool:
        start(pool)
        for action in trial.actions():
            ended = _ended(advance(pool, action))
            if ended.any():
                break
        else:
            raise NotApplicable(f"no episode ended in {trial.steps} steps: give max_episode_steps, or more steps")
        try:
            pool.step(action)
        except SequenceError:
            pass
        else:
            raise Mismatch(f"environment {np.flatnonzero(ended)[0]} has ended, but stepping it is no SequenceError")
        _, info = pool.reset(options={"reset_mask": ended})
        if info["env_id"].tolist() != np.flatnonzero(ended).tolist() or info["elapsed_step"].any():
            raise Mismatch(f"reset_mask must reset {np.flatnonzero(ended)}, but {info['env_id']} came back")
        pool.step(action)


@conformance
def elapsed_step(trial: Trial) -> None:
    """Checks that ``elapsed_step`` counts an episode's steps from 0."""
    with trial.make(autoreset="disabled") as pool:
        one = start(pool)
        count = np.zeros(trial.num_envs, np.int32)
        for step, action in enumerate(trial.actions()):
            _expect_count(one, count, step)
            one, count = advance(pool, action), count + 1
            _expect_count(one, count, step + 1)
            if (ended := _ended(one)).any():
                fresh = start(pool, np.flatnonzero(ended))
                count[ended] = 0
                one = {name: array.copy() for name, array in one.items()}
                one["elapsed_step"][ended] = fresh["elapsed_step"]


def _expect_count(one: Frame, count: np.ndarray, step: int) -> None:
    if not np.array_equal(one["elapsed_step"], count):
        raise Mismatch(f"after {step} steps elapsed_step should be {text(count)}, but is {text(one['elapsed_step'])}")


@conformance
def truncation(trial: Trial) -> None:
    """Checks that an episode is truncated after exactly ``max_episode_steps`` steps."""
    if not trial.can_be_limited:
        raise NotApplicable("the task has no option max_episode_steps")
    limit = 5
    with trial.make(autoreset="disabled", max_episode_steps=limit) as pool:
        for action in trial.actions(3):  # three episodes, with one action each
            one, over = start(pool), np.zeros(trial.num_envs, np.bool_)
            for step in range(1, limit + 1):
                going = np.flatnonzero(~over)
                if not going.size:
                    break
                one = advance(pool, row_of(action, going), going)
                wrong = np.flatnonzero(one["truncated"] != (step == limit))
                if wrong.size:
                    seen = bool(one["truncated"][wrong[0]])
                    raise Mismatch(
                        f"max_episode_steps={limit}: in step {step} truncated should be {step == limit}, "
                        f"but is {seen} in environment {going[wrong[0]]}"
                    )
                over[going] = _ended(one)


@conformance
def spaces(trial: Trial) -> None:
    """Checks that observations lie in the observation space, rewards are finite, and actions at bounds are accepted."""
    with trial.make() as pool:
        _inside(pool, start(pool), 0)
        actions = trial.actions()
        actions[1::4] = [_at_bound(pool, 0)] * len(actions[1::4])
        actions[3::4] = [_at_bound(pool, 1)] * len(actions[3::4])
        for step, action in enumerate(actions, 1):
            one = advance(pool, action)
            _inside(pool, one, step)
            if one["reward"].dtype != np.float32 or not np.isfinite(one["reward"]).all():
                raise Mismatch(f"after {step} steps rewards should be finite float32, but are {text(one['reward'])}")


def _inside(pool: Pool, one: Frame, step: int) -> None:
    spaces = {":".join(map(str, path)): space for path, space in leaves(pool.observation_space).items()}
    for final in (False, True) if "final" in one else (False,):
        for key, array in observations(one, final=final):
            space, name = spaces[key], f"{'final_obs' if final else 'obs'}{f'[{key!r}]' if key else ''}"
            dtype, shape = (space.dtype, space.shape) if is_array(space) else (np.dtype(object), ())
            if array.dtype != dtype or array.shape[1:] != shape:
                wanted = f"{dtype}{list(shape or ())}"
                raise Mismatch(f"{name} should be {wanted}, but is {array.dtype}{list(array.shape[1:])}")
            for env_id, row in enumerate(array):
                value = np.asarray(row) if isinstance(space, gym.spaces.Box) else row
                if value not in space and not (final and not one["final"][env_id]):
                    raise Mismatch(
                        f"after {step} steps, environment {env_id}: {name} is {text(row)}, "
                        f"which is not in {space}{_where_outside(space, row)}"
                    )


def _where_outside(space: gym.Space, row: np.ndarray) -> str:
    if not isinstance(space, gym.spaces.Box):
        return ""
    wrong = np.argwhere(~((row >= space.low) & (row <= space.high)))
    if not wrong.size:
        return ""
    at = tuple(int(i) for i in wrong[0])
    return f": at {list(at)} it is {row[at]}, outside of [{space.low[at]}, {space.high[at]}]"


def _at_bound(pool: Pool, side: int) -> object:
    """Returns actions at the lower (``side`` 0) or upper (1) bounds of the space; 0 where it has no bound."""
    found = {}
    for path, space in leaves(pool.action_space).items():
        bound = np.broadcast_to(bounds(space)[side], space.shape or ())
        found[leaf_name("", path)] = np.where(np.isfinite(bound), bound, 0).astype(space.dtype)
    return stack([assembled("", pool.action_space, found)] * pool.num_envs)


@conformance
def saved_states(trial: Trial) -> None:
    """Checks that a loaded state continues with the same bits as the saved one, also in another pool and row."""
    actions = trial.actions()
    before, after = actions[: trial.steps // 2], actions[trial.steps // 2 :]
    ids = np.arange(trial.num_envs)
    with trial.make() as pool:
        play(pool, before)
        try:
            blobs = pool.save_state()
        except StateError as error:
            if isinstance(error.__cause__, EnvironmentFailure):  # the environment is an object that cannot be pickled
                raise NotApplicable(str(error).splitlines()[0]) from None
            raise
        expected = [advance(pool, action) for action in after]
        pool.load_state(None, blobs)
        if pool.save_state() != blobs:
            raise Mismatch("states saved, loaded and saved again must be equal, but are not")
        same(expected, [advance(pool, action) for action in after], "states loaded into their own pool must go on")
    with trial.make(num_envs=trial.num_envs + 1, seed=trial.seed + 5) as pool:
        start(pool)
        places = trial.num_envs - ids  # in reverse order, without environment 0
        pool.load_state(places, blobs)
        moved = []
        for action in after:
            one = advance(pool, action, places)
            moved.append({name: array[::-1] for name, array in one.items()} | {"env_id": ids.astype(np.int32)})
        same(expected, moved, "states loaded into another pool, in other places, must go on")


@conformance
def rendering(trial: Trial) -> None:
    """Checks that frames are uint8[height, width, 3] and deterministic, and that rendering does not affect results.

    The rendering of environments that are Python objects may change with each call. They are then rendered again in
    another pool, after the same seed, actions and renderings.
    """
    actions = trial.actions()[: trial.steps // 4]
    with trial.make() as pool:
        unseen = play(pool, actions)
        of_objects = pool.of_objects
    seen, last, again = _filmed(trial, actions)
    same(unseen, seen, "rendering must not change what happens")
    if last.dtype != np.uint8 or last.ndim != 4 or len(last) != trial.num_envs or last.shape[-1] != 3:
        raise Mismatch(
            f"frames should be uint8[{trial.num_envs}, height, width, 3], but are {last.dtype}{list(last.shape)}"
        )
    if np.array_equal(last, again):
        return
    if not of_objects:
        raise Mismatch("rendering one state twice must give the same frame")
    _, *twins = _filmed(trial, actions)
    if not (np.array_equal(last, twins[0]) and np.array_equal(again, twins[1])):
        raise Mismatch("rendering must give the same frames after the same seed, actions and renderings")


def _filmed(trial: Trial, actions: Sequence[object]) -> tuple[list[Frame], np.ndarray, np.ndarray]:
    """Plays and renders a run; returns its frames, and all environments' last pictures, rendered twice."""
    everybody = np.arange(trial.num_envs)
    with trial.make() as pool:
        seen = [start(pool)]
        try:
            pool.render()
        except OptionError as error:
            raise NotApplicable(str(error)) from None
        for action in actions:
            pool.render([trial.num_envs - 1])
            seen.append(advance(pool, action))
        return seen, pool.render(everybody), pool.render(everybody)
