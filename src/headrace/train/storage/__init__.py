"""Where experience is kept until it is learnt from: replays, priorities, rollout slots."""
