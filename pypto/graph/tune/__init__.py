"""Tuning of plans: read `tune`, `candidate_run`, `best_configurations`, `tune_report`."""
