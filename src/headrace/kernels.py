"""What the author of a kernel environment imports, in one place.

    from headrace.kernels import KernelEnv, KernelTask, Streams, uniform

`KernelEnv` (one agent) and `MultiAgentEnv` (many) name the parts of an environment;
`KernelTask` adds its spaces and options, and is what `headrace.register` takes. Inside an
environment's functions, random numbers come from its own stream: `uniform`, `integers` and
`random_bits`, or their twins for one agent of many. `sincos` is quicker than the two library
calls and gives the same bits everywhere. ``docs/kernel-environment.md`` builds one from nothing.
"""

from headrace.pool.executors.kernels import *  # noqa: F403
from headrace.pool.executors.kernels import __all__ as __all__
