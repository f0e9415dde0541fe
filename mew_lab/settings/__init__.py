"""Reads settings from files and the environment, and reports their faults by key path."""
