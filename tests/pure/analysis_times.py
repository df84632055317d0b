"""How long the analysis of kernels takes, without a device.

    python -m tests.pure.analysis_times [FOLDER] [--rounds N] [--beside FOLDER] [--keep FILE] [--before FILE]

Without a folder, the programs are those in strings of tests/ and samples/; in a folder they are *.cl files, and a .json file
of the same name may hold their build options under "options". Times are processor time, the least of some rounds. `--keep`
writes them to a file, and `--before` prints those of such a file beside them. `--beside` names the translators of another
version's checkout, which analyse the same programs in the same process: a round of one version is followed by a round of
the other, so that both have the machine as it is.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import process_time
from typing import Any

from tests.pure.exactness import THIS, programs, version_in


def parsed(version: Any, folder: Path | None) -> Iterator[tuple[str, Any]]:
    """(where it is, program) of every program that clang accepts."""
    texts = [(where, text, "") for where, text in programs()] if folder is None else []
    for path in [] if folder is None else sorted(folder.glob("*.cl")):
        settings = path.with_suffix(".json")
        options = json.loads(settings.read_text())["options"] if settings.exists() else ""
        texts.append((path.name, path.read_text(), options))
    for where, text, options in texts:
        try:
            yield where, version.parse_program(text, [options])
        except version.CompileError:
            continue


def measure(
    versions: Sequence[Any], folder: Path | None, rounds: int
) -> tuple[list[dict[str, float]], list[str]]:
    """For each version, by program: the milliseconds that the analysis of all its kernels took. And the reasons why the first one gave
    some up.
    """
    found = [list(parsed(version, folder)) for version in versions]
    columns: list[dict[str, float]] = [{} for _ in versions]
    gave_up: dict[str, None] = {}
    gc.collect()
    gc.freeze()  # whoever looks for garbage meanwhile should not have all these programs to go through
    for _ in range(rounds):
        for version, programs_of_it, times in zip(versions, found, columns, strict=True):
            for where, program in programs_of_it:
                start = process_time()
                summaries = [version.analyse_kernel(program, name) for name in program.kernels]
                took = (process_time() - start) * 1e3
                times[where] = min(took, times.get(where, took))
                if version is versions[0]:
                    for summary in summaries:
                        gave_up.update(
                            (f"{where}: {summary.name}: {why}", None) for why in summary.one_worker
                        )
    return columns, list(gave_up)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--beside", type=Path, metavar="FOLDER")
    parser.add_argument("--keep", type=Path, metavar="FILE")
    parser.add_argument("--before", type=Path, metavar="FILE")
    options = parser.parse_args()
    versions = [THIS] if options.beside is None else [THIS, version_in(options.beside)]
    columns, gave_up = measure(versions, options.folder, options.rounds)
    times = columns[0]
    if options.before is not None:
        columns.append(json.loads(options.before.read_text()))
    slowest = sorted(times, key=lambda where: -times[where])[:20]
    print("| program | ms |" + " ms before |" * (len(columns) - 1))
    print("|---|---:|" + "---:|" * (len(columns) - 1))
    for where in slowest:
        print(
            f"| {where} | "
            + " | ".join(f"{column.get(where, float('nan')):.2f}" for column in columns)
            + " |"
        )
    shared = [where for where in times if all(where in column for column in columns)]
    for name, of in (("median", statistics.median), ("sum", sum), ("longest", max)):
        figures = [f"{of([column[where] for where in shared]):.2f}" for column in columns if shared]
        print(f"| {name} of {len(shared)} programs | {' | '.join(figures)} |")
    for line in gave_up:
        print(line)
    if options.keep is not None:
        options.keep.write_text(json.dumps(times, indent=1))


if __name__ == "__main__":
    main()
