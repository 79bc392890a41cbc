"""Storage of experience: replays, priorities, rollout slots, and their files."""
