"""What became of what was said: the life of requests and proposals, computed in one place from entries in order."""
