"""The names that programs written for EnvPool import from ``envpool.registration``."""

from headrace.pool.registry import list_all_envs, register
from headrace.pool.views.make import make, make_dm, make_gym, make_gymnasium, make_spec

__all__ = ["list_all_envs", "make", "make_dm", "make_gym", "make_gymnasium", "make_spec", "register"]
