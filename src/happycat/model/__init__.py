"""For practitioners: the estimator, its class registry, the model file."""
