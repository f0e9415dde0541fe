"""What a person sees: one folder a part, with its model, its widget and its front end."""
