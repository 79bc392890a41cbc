"""Worker processes: starting and supervising them, and the memory that they share."""
