"""Handwritten digits for tutorial 19."""
