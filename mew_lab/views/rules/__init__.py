"""The view of rules: model, widget and front end."""
