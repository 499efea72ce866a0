"""Tests of what watches a training."""
