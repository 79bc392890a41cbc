"""The ``headrace`` command; one module a sub-command, loaded only when it is asked for."""
