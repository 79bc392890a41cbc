"""Plays tasks of many agents in several ways, for tests that compare them."""

import numpy as np

import headrace

RING, HUNT = "TestRing-v0", "TestHunt-v0"
MODES = ["next_step", "same_step"]


def draw(task, rng, n, players=5):
    """Actions of n environments."""
    if task == RING:
        return rng.integers(0, 4, (n, players))
    dog = np.stack([rng.integers(0, 3, (n, 2)), rng.integers(0, 10, (n, 2))], -1)
    return {"archer": rng.uniform(-1, 1, (n, 3, 2)).astype(np.float32), "dog": dog}


def rows_of(action, ids):
    return {k: v[ids] for k, v in action.items()} if isinstance(action, dict) else action[ids]


def flat(result):
    """All arrays of a result, without the rows' numbers."""
    obs, *rest, info = result
    values = [*(obs.values() if isinstance(obs, dict) else [obs]), *rest, info["alive"], info["elapsed_step"]]
    return [*values, *(info[key] for key in ("luck", "living") if key in info)]


def play(task, steps=60, n=7, order=None, seed=11, **settings):
    """Every result over some steps, environments in order."""
    rng, results = np.random.default_rng(5), []
    players = settings.get("players", 5)
    with headrace.make(task, num_envs=n, seed=seed, **settings) as pool:
        actions = [draw(task, rng, n, players) for _ in range(steps)]
        for result in (order or in_one_go)(pool, actions):
            results.append([np.copy(array) for array in flat(result)])
    return [np.stack(column) for column in zip(*results, strict=True)]


def in_one_go(pool, actions):
    pool.reset()
    for action in actions:
        yield pool.step(action)


def in_parts(pool, actions):
    rng = np.random.default_rng(1)
    pool.reset()
    for action in actions:
        parts = np.array_split(rng.permutation(pool.num_envs), 3)
        yield merged([pool.step(rows_of(action, ids), ids) for ids in parts])


def asynchronously(pool, actions):
    rng = np.random.default_rng(2)
    rounds = pool.num_envs // pool.batch_size
    pool.async_reset()
    for _ in range(rounds):
        pool.recv()
    for action in actions:
        for ids in np.array_split(rng.permutation(pool.num_envs), 2):
            pool.send(rows_of(action, ids), ids)
        yield merged([pool.recv() for _ in range(rounds)])


def merged(parts):
    order = np.argsort(np.concatenate([info["env_id"] for *_, info in parts]))

    def join(values):
        if isinstance(values[0], dict):
            return {k: join([v[k] for v in values]) for k in values[0]}
        return np.concatenate(values)[order]

    *columns, infos = zip(*parts, strict=True)
    names = [key for key in infos[0] if "final" not in key]
    return *map(join, columns), {key: join([info[key] for info in infos]) for key in names}


def assert_equal(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)
