"""The moments view: model, widget and front end."""
