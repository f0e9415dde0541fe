"""The reasoning view: model, widget and front end."""
