"""The approvals view: model, widget and front end."""
