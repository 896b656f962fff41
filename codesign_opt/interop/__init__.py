"""Foreign formats."""
