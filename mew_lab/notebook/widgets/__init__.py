"""One file a widget, with its front-end beside it."""
