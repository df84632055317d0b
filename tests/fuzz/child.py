"""One process of a run: `python -m tests.fuzz.child`, started by `run` with what it is to do; speaks line by line.

Decides only that a defect is planted before anything of vdev is imported.
"""

from __future__ import annotations

import argparse
import os
import sys

from .mutations import nowhere, plant
from .parts import Part


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--workers", required=True)
    parser.add_argument("--native", default="CPU")
    parser.add_argument("--keep", default="")
    parser.add_argument("--shrink", type=float, default=0)
    parser.add_argument("--defect", default="")
    parser.add_argument("--skip", default="")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--excused", action="store_true")
    parser.add_argument("--cuts", action="store_true")
    parser.add_argument("--cache", default="")
    parser.add_argument("--cores", default="")
    parser.add_argument("--except", dest="left_out", default="")
    parser.add_argument("parts", type=Part.parse, nargs="+")
    args = parser.parse_args()
    if args.cores:  # before an engine counts them
        os.sched_setaffinity(0, map(int, args.cores.split(",")))
    if args.defect:
        plant(args.defect)
    from .worker import Child, say  # not before the defect is there

    child = Child(args)
    parts = list(args.parts)
    while parts:
        parts[:1] = child.part(parts[0])
        if args.defect and (missing := nowhere(args.defect)):
            say(error=f"{args.defect}: nothing imports {', '.join(missing)}")
            sys.exit(1)
    child.machines.close()
    say(ended=True)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
