"""The state of everything in a space, computed in one place from its entries in order."""
