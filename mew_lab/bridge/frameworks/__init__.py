"""Lets agents of other frameworks have their tool calls approved in a space; an extra of the same name for each."""
