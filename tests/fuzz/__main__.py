"""Random programs natively and on several workers: `python -m tests.fuzz --programs 30000 --seed 1 --json out.json`.

    python -m tests.fuzz --seconds 110                                     a slice, with a fresh seed, which is printed
    python -m tests.fuzz --native GPU --workers cuda:0,cuda:0-1 --programs 5000

Each program is run natively and on a session for each entry of --workers, at least ten launches, and every byte of its
buffers is compared. A failing one is written to --keep as a script that stands alone. The status is 1 if any failed.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import sys
from pathlib import Path

from .run import Options, Outcome, Run


def worker_lists(text: str) -> tuple[str, ...]:
    """Sessions' workers.

    >>> worker_lists("cpu:2,cuda:0,2,cuda:0-1")
    ('cpu:2', 'cuda:0,2', 'cuda:0-1')
    """
    found: list[str] = []
    for item in text.split(","):
        if item[:1].isdigit() and found:
            found[-1] += "," + item
        else:
            found.append(item)
    return tuple(found)


def report(o: Outcome) -> None:
    print(
        f"{o.programs} programs, {o.launches} launches each way, {len(o.failures)} failed, {o.seconds:.0f} s"
    )
    print(f"passed over: {len(o.crashed)} programs that ended the native compiler, {len(o.refused)} that it refuses, "
          f"{len(o.undetermined)} that differ natively")  # fmt: skip
    for title, table in (("launches under vdev", o.counts), ("forms", o.forms), ("seconds", o.times)):
        print(f"{title}: " + ", ".join(f"{name} {count:.0f}" for name, count in table.most_common()))
    for text in [*o.refused[:3], *o.undetermined[:5], *o.crashed[:5]]:
        print(text)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--programs", type=int, default=1 << 30, help="how many (default: until --seconds are over)"
    )
    parser.add_argument(
        "--seconds", type=float, default=0, help="end after so long (default: 110 without --programs)"
    )
    parser.add_argument(
        "--workers", default="cpu:2,cpu:3,cpu:5", help="a session each (default: %(default)s)"
    )
    parser.add_argument(
        "--native", choices=("CPU", "GPU"), default="CPU", help="the native device to compare with"
    )
    parser.add_argument("--seed", type=int, default=None, help="default: a fresh one, which is printed")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: %(default)s)")
    parser.add_argument(
        "--cores", type=int, default=0, help="processors that each process keeps to (default: all)"
    )
    parser.add_argument("--keep", default="", metavar="FOLDER", help="where scripts of failing programs go")
    parser.add_argument(
        "--shrink",
        type=float,
        default=30,
        metavar="S",
        help="seconds to make one smaller (default: %(default)s)",
    )
    parser.add_argument(
        "--skip",
        default="",
        metavar="FORMS",
        help="forms left out, with commas, that known defects hide others by",
    )
    parser.add_argument(
        "--check", action="store_true", help="as under VDEV_CHECK=1, which has to say nothing"
    )
    parser.add_argument(
        "--cuts", action="store_true", help="launches are cut in every way in turn, not in the cheapest"
    )
    parser.add_argument("--json", default="", metavar="FILE", help="write the outcome to a file")
    args = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 31) if args.seed is None else args.seed
    if args.native == "GPU":
        # NVIDIA's compiler gives wrong results for some of these: each time Intel's gave vdev's
        args.skip = ",".join(filter(None, [args.skip, "narrow bounds", "mad_sat of longs"]))
    seconds = args.seconds or (110.0 if args.programs == 1 << 30 else float("inf"))
    print(f"seed {seed}", flush=True)
    if args.keep:
        Path(args.keep).mkdir(parents=True, exist_ok=True)
    options = Options(
        seed, worker_lists(args.workers), args.native, args.jobs, args.cores, keep=args.keep and str(Path(args.keep).absolute()),
        shrink=args.shrink, skip=args.skip, check=args.check, cuts=args.cuts,
    )  # fmt: skip
    outcome = Run(options, args.programs, seconds, lambda text: print(text, flush=True)).run()
    report(outcome)
    if args.json:
        about = {
            "seed": seed,
            "workers": options.workers,
            "native": args.native,
            "python": platform.python_version(),
        }
        Path(args.json).write_text(json.dumps({**about, **outcome.table()}, indent=1, default=str) + "\n")
    if not outcome.programs:
        print("no program was run: nothing has been shown")
    return int(bool(outcome.failures) or not outcome.programs)


if __name__ == "__main__":
    sys.exit(main())
