"""Calibration of null distributions on made tables whose relation is known."""
