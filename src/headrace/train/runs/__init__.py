"""The files of a run: its folder, checkpoints and lock, and checks of the code that it names."""
