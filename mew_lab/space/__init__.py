"""What a space does: pure and deterministic, step(event, now) -> effects."""
