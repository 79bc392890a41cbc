"""EnvPool's tasks by the name ``envpool:NAME``; `headrace.pool.executors.envpool` makes them."""

from headrace.pool.family import Family
from headrace.pool.sources import ENVPOOL

FAMILY = Family(
    "envpool",
    (),
    "headrace.pool.executors.envpool:build",
    runs_on="EnvPool, for one player",
    extra="envpool>=1.2.5",
    prefix=ENVPOOL,
)
