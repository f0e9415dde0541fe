"""An agent: a participant that answers requests with a language model and the tools of a space."""
