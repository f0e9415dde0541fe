"""Runs or joins one space for one human: gateway, seats, decisions and grants, without IPython and without widgets."""
