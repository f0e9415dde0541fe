"""Moves text and bytes: links between two ends, appended files, and the process that supervises a program."""
