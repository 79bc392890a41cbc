"""Environments written in Python as Warp kernels, advanced together at compiled speed.

`headrace.kernels` exports these names to authors of environments.
"""

from headrace.pool.executors.kernels.agents import MultiAgentEnv
from headrace.pool.executors.kernels.program import KernelEnv
from headrace.pool.executors.kernels.random import (
    AgentStreams,
    Streams,
    agent_integers,
    agent_random_bits,
    agent_uniform,
    integers,
    normal,
    random_bits,
    uniform,
)
from headrace.pool.executors.kernels.task import KernelTask
from headrace.pool.executors.kernels.trigonometry import sincos
from headrace.pool.options import Option, decimal
from headrace.pool.signals import Control, Part, Signals
from headrace.pool.spec import AgentType, Field

__all__ = [
    "AgentStreams",
    "AgentType",
    "Control",
    "Field",
    "KernelEnv",
    "KernelTask",
    "MultiAgentEnv",
    "Option",
    "Part",
    "Signals",
    "Streams",
    "agent_integers",
    "agent_random_bits",
    "agent_uniform",
    "decimal",
    "integers",
    "normal",
    "random_bits",
    "sincos",
    "uniform",
]
