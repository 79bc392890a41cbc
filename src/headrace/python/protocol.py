"""The types that EnvPool's programs name in annotations: ``from headrace.python.protocol import EnvPool``."""

from headrace.pool.views.arrayspec import ArraySpec
from headrace.pool.views.dm import DmPool as DMEnvPool
from headrace.pool.views.envpool import EnvPool
from headrace.pool.views.envpool import GymPool as GymnasiumEnvPool
from headrace.pool.views.envspec import EnvSpec

__all__ = ["ArraySpec", "DMEnvPool", "EnvPool", "EnvSpec", "GymnasiumEnvPool"]
