"""An agent served as tools: a file of tools, each a JSON Schema and a prompt, and the sessions that answer calls."""
