"""One process that runs translations to CUDA under a planted defect: `python -m tests.fuzz.cuda_child`, started by `strength`.

Decides only that the defect is planted before anything of vdev is imported. Says, line by line, which programs of each batch differ.
"""

from __future__ import annotations

import argparse
import json

from .mutations import nowhere, plant


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--defect", default="")
    parser.add_argument("batches", type=int, nargs=2, help="the first, and the one behind the last")
    args = parser.parse_args()
    if args.defect:
        plant(args.defect)
    from .cuda import FOR_GCC, differing  # not before the defect is there
    from .machines import Native

    if args.defect and (missing := nowhere(args.defect)):
        raise SystemExit(f"{args.defect}: nothing imports {', '.join(missing)}")
    native = Native("CPU")
    for number in range(*args.batches):
        try:
            found = differing(args.seed, number, args.size, FOR_GCC, native)
        except Exception as error:  # what is not translated, or what the C++ compiler refuses
            found = [f"p{args.size - 1}: {type(error).__name__}: {error}"[:300]]
        print("CUDA " + json.dumps({"batch": number, "found": found}), flush=True)


if __name__ == "__main__":
    main()
