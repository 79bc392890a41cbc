"""EnvPool's names for what Headrace has, where EnvPool's programs import them from."""
