"""The part inside an IPython kernel: magics, completion, displays and checks of waits. No other room imports it."""
