"""The workshop: an agent file as a list of tools, each with a form for its parameters, its prompt and a test."""
