"""A running gateway: feeds spaces their clock, mints tokens, serves the wire."""
