"""Tools from elsewhere join a space as participants."""
