"""A web page that shows training runs: a server that only reads run folders, and the page's files."""
