"""Tuning of plans: read `tune`, `candidate_run`, `tune_report`."""
