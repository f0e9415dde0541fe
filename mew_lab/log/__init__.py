"""What happened: journals and tables."""
