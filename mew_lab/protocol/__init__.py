"""Messages: their text, their kinds and the capabilities that permit them. Pure, without I/O, clock or state."""
