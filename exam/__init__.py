"""Exam of the agent's knowledge of its conversation: probes made from the archive, graded without a model."""
