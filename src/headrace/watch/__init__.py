"""A web page that shows training runs: a server that reads run folders, and the page's files."""
