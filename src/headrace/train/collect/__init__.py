"""How a pool and policies fill rollouts, on the host and on a device."""
