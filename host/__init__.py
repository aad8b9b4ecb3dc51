"""Knowledge of Hermes: versions, paths, session rows, and failures at its boundary."""
