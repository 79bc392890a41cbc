"""The public names for authors of kernel environments.

    from headrace.kernels import KernelEnv, KernelTask, Streams, uniform

`KernelEnv` (one agent) and `MultiAgentEnv` (many) name the parts of an environment;
`KernelTask` adds its spaces and options, and is what `headrace.register` takes. Inside an
environment's functions, random numbers come from its own stream: `uniform`, `integers` and
`random_bits`, or their counterparts for one agent of many. `sincos` is faster than the two library
calls and gives the same bits everywhere. ``docs/kernel-environment.md`` is a tutorial.
"""

from headrace.pool.executors.kernels import *  # noqa: F403
from headrace.pool.executors.kernels import __all__ as __all__
