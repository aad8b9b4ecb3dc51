"""Full-text search: index, query, ranking and scope."""
