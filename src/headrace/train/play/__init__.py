"""A trained agent outside of training: evaluation, videos, logged episodes."""
