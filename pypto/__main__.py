"""`python -m pypto`: the command line."""

from pypto.cli.app import main

if __name__ == "__main__":
    main()
