"""Verification of plans against numpy: read `function_verifier`, `stepwise`, `differences`."""
