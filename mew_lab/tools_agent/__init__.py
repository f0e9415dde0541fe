"""An agent served as tools: a file of tools, each a JSON Schema and a prompt, and what answers their calls."""
