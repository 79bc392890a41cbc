"""Executors: ways to advance a pool's environments; each implements `headrace.pool.executor.Executor`."""
