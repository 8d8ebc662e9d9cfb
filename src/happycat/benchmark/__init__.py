"""For researchers: the protocol of stages, runs and their records, the paper's experiments."""
