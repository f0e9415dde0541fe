"""Decides what happens in a space: pure and deterministic, `plan(event, now)` gives effects."""
