"""The ``headrace`` command, with one module for each subcommand, which is imported when the subcommand is called."""
