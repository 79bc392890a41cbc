"""Collection of rollouts from a pool and policies, on the host and on a device."""
