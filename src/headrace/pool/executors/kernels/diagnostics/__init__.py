"""Diagnostics of mistakes in kernel environments.

`checks` finds mistakes before anything is compiled, `mistakes` and `paths` explain mistakes in the source, and debug
mode (`debug`) runs an environment's functions as plain Python (`interpret`), checks every index (`checked`), stops
endless loops (`patience`), and finds races among agents (`races`). `first_steps` runs an environment that is new on
this machine in debug mode before any compiled step.
"""
