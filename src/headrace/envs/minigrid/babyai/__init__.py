"""The levels of BabyAI: what the agent is to do is said in words, and can be anything of a small language.

`instructions` has what is asked for and how it is said, `verifier` a step, `things` what makers of levels share; the
levels are in `levels` and `language`, and their names in `tasks`.
"""
