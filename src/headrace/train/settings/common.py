"""The records that the runs of every algorithm may have, in the order in which the help shows their settings."""

from __future__ import annotations

from headrace.train.settings.algorithm import Algorithm
from headrace.train.settings.environments import Environments
from headrace.train.settings.files import Files
from headrace.train.settings.networks import Compilation, Computation, Layers, Network
from headrace.train.settings.policies import Loaded, Policies, SelfPlay
from headrace.train.settings.run import Collecting, DeviationFloor, Device, Optimiser, Run
from headrace.train.settings.workers import InTurn, Samplers, Workers

COMMON = Algorithm(()).extended(
    Run, Device, Environments, Network, Layers, Computation, Compilation, Collecting, DeviationFloor, Optimiser,
    Workers, InTurn, Samplers, Policies, Loaded, SelfPlay, Files,
)  # fmt: skip
