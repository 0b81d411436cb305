"""Prints Loop IR and LLVM text of kernels; run in processes of their own by the tests of determinism."""

import sys

from pypto.backends.cpu.listing import print_schedule
from tests.backends_cpu.lowering import lowered
from tests.conformance.running import make_launch

if __name__ == "__main__":
    for name in sys.argv[1:]:
        made = lowered(make_launch(name))
        print(print_schedule(made.schedule), made.text, made.abi)
