"""The page on which runs can be watched: a small server that only reads run folders, and its files for browsers."""
