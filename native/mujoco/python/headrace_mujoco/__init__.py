"""The compiled part of Headrace's MuJoCo tasks: the module `headrace_mujoco._mujoco`."""

__version__ = "0.2.0"
