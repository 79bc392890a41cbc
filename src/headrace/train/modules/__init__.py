"""Networks and what stands around them: distributions, normalisation, action masks, encoded observations."""
