"""Speaking MEW: what a participant knows from the wire, and nothing else."""
