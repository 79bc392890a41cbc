"""Settings, presets and capabilities of Headrace's algorithms, for help and checks, which do not import torch."""
