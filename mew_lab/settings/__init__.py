"""Files, environment and key paths of settings, for everything that is set up from outside."""
