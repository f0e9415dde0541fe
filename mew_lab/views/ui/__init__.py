"""The parts that all views share: the live widget, actions, layout, Markdown, pictures and front-end modules."""
