"""Calibration: fitting the efficiencies of processors and networks to measured runs."""
