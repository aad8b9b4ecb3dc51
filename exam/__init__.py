"""What the agent still knows of its conversation: probes made from the archive, graded without a model."""
