"""What explains mistakes in kernel environments, away from the path that data takes.

`checks` names a mistake before anything is compiled, `mistakes` and `paths` say what the compiler could not, and
debug mode (`debug`) plays an environment's functions as plain Python (`interpret`), where every index is checked
(`checked`), loops end (`patience`), and agents that race are found (`races`). `first_steps` plays an environment
that is new on this machine so, before compiled code takes any step.
"""
