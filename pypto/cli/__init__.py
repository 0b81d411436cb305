"""The command line: `pypto` and `python -m pypto`."""
