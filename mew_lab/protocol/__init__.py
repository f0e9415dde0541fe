"""What a message is: pure, without I/O, clock or state."""
