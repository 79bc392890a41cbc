"""Environments written in Python as Warp kernels, advanced together at compiled speed.

What an environment's author needs is listed here, and offered as `headrace.kernels`.
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
from headrace.pool.spec import AgentType, Field

__all__ = [
    "AgentStreams",
    "AgentType",
    "Field",
    "KernelEnv",
    "KernelTask",
    "MultiAgentEnv",
    "Option",
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
