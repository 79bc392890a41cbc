"""Functions that make environments of others with wrappers around them, as a user would write them."""

from __future__ import annotations

import gymnasium as gym


def pixels() -> gym.Env:
    """MiniGrid without the mission's text: what is seen alone."""
    from minigrid.wrappers import ImgObsWrapper

    return ImgObsWrapper(gym.make("MiniGrid-Empty-5x5-v0"))


def flat() -> gym.Env:
    """MiniGrid with the mission's text as numbers, all in one vector."""
    from minigrid.wrappers import FlatObsWrapper

    return FlatObsWrapper(gym.make("MiniGrid-Empty-5x5-v0"))


def screen() -> gym.Env:
    """Atari as `gymnasium.wrappers` prepare it."""
    import ale_py

    gym.register_envs(ale_py)
    env = gym.make("ALE/Pong-v5", frameskip=1)
    env = gym.wrappers.AtariPreprocessing(env, noop_max=5, screen_size=84)
    return gym.wrappers.FrameStackObservation(env, 4)


def maze() -> gym.Env:
    """A point in a maze, its goal beside what it sees in one vector."""
    import gymnasium_robotics

    gym.register_envs(gymnasium_robotics)
    return gym.wrappers.FlattenObservation(gym.make("PointMaze_UMaze-v3", max_episode_steps=20))
