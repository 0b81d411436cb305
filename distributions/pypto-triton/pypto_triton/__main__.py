"""``python -m pypto_triton``: which Triton `import triton` gives here."""

from __future__ import annotations

import sys

from pypto_triton import CHOICE, VERSION, chosen, other_triton, start

if __name__ == "__main__":
    start()
    if chosen() == "0":
        print(f"{CHOICE}=0: pypto-triton serves nothing.")
        sys.exit(1)
    found = other_triton()
    if found is not None and chosen() != "1":
        print(
            f"`import triton` gives the Triton at {found.origin}. pypto-triton overwrites none, and does nothing "
            f"beside it: uninstall triton, set {CHOICE}=1, or run a script with `python -m pypto.compat.triton`."
        )
        sys.exit(1)
    import pypto

    print(f"`import triton` gives pypto {pypto.__version__}, as Triton {VERSION}.")
