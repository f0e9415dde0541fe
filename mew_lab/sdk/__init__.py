"""The SDK of a MEW participant. It depends on the wire alone, never on the rooms of the gateway."""
