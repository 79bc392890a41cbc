"""Modules with EnvPool's names, for programs that import them."""
