"""Looking into what was compiled."""
