"""A participant that thinks."""
