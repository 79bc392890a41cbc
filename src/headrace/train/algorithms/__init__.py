"""What learns: a policy with its loss, its optimiser and its updates."""
