"""Environments written in Python as Warp kernels, advanced together at compiled speed."""

from headrace.pool.executors.kernels.agents import MultiAgentEnv
from headrace.pool.executors.kernels.executor import KernelExecutor
from headrace.pool.executors.kernels.program import KernelEnv
from headrace.pool.executors.kernels.random import (
    AgentStreams,
    Streams,
    agent_integers,
    agent_random_bits,
    agent_uniform,
    integers,
    random_bits,
    uniform,
)
from headrace.pool.executors.kernels.task import KernelTask, Option, decimal
from headrace.pool.executors.kernels.trigonometry import sincos

__all__ = [
    "AgentStreams",
    "KernelEnv",
    "KernelExecutor",
    "KernelTask",
    "MultiAgentEnv",
    "Option",
    "Streams",
    "agent_integers",
    "agent_random_bits",
    "agent_uniform",
    "decimal",
    "integers",
    "random_bits",
    "sincos",
    "uniform",
]
