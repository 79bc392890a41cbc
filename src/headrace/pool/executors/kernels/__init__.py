"""Environments written in Python as Warp kernels, advanced together at compiled speed."""

from headrace.pool.executors.kernels.executor import KernelExecutor
from headrace.pool.executors.kernels.program import KernelEnv
from headrace.pool.executors.kernels.random import Streams, integers, random_bits, uniform
from headrace.pool.executors.kernels.task import KernelTask, Option, decimal
from headrace.pool.executors.kernels.trigonometry import sincos

__all__ = [
    "KernelEnv",
    "KernelExecutor",
    "KernelTask",
    "Option",
    "Streams",
    "decimal",
    "integers",
    "random_bits",
    "sincos",
    "uniform",
]
