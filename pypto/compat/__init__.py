"""Bridges to other kernel languages."""
