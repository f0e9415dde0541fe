"""A workbench for the MEW Protocol v0.4 inside Jupyter."""

__version__ = "0.1.0"
