"""Moves text and bytes: links between two ends, files that are appended to, and the process that keeps a program."""
