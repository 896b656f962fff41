"""Simulation of program graphs: collectives as messages, networks as links, execution in time."""
