"""Networks, action distributions, normalisation, action masks and observation encoders."""
