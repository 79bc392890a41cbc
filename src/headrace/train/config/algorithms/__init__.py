"""What Headrace's own algorithms declare, apart from them: help and checks need it, and do not need torch."""
