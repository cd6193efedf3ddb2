"""Shows a mutant to the tests in a file, and prints the result as JSON: pytest cannot run inside of a test."""

from __future__ import annotations

import json
import sys

from benchmarks.simulation.mutants.making import Mutant
from benchmarks.simulation.mutants.testing import ShownMutant, show


def main() -> None:
    found: list[ShownMutant] = []
    show([Mutant(*json.loads(sys.argv[1]))], 1, found.append, sys.argv[2:])
    print(json.dumps(found[0]))


if __name__ == "__main__":
    main()
