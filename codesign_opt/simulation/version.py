"""The version of the simulator's results."""

SIMULATOR_VERSION = "2"
"""Changes whenever a simulated time of a step may change; a candidate is simulated once by each version."""
