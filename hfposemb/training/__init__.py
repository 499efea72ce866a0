"""Embedding tables watched while they are trained."""
