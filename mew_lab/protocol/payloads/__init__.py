"""Payload models, one file a chapter of the specification; unknown fields are kept."""
