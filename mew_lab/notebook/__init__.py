"""Inside the kernel: magics, completion, displays, widgets. Nobody imports this."""
