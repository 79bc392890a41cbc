"""Diagnostics of mistakes in kernel environments.

`checks` finds mistakes before anything is compiled, `mistakes` and `paths` explain those in the source, and debug mode
(`debug`) runs an environment's functions as plain Python (`interpret`), where every index is checked (`checked`),
endless loops are stopped (`patience`), and races among agents are found (`races`). `first_steps` runs an environment
that is new on this machine in this way before any compiled step.
"""
