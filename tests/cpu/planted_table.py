"""What VDEV_CHECK=1 says of planted faults: `VDEV=1 VDEV_CHECK=1 VDEV_MIN_ITEMS=0 VDEV_WORKERS=cpu:3 python -m
tests.cpu.planted_table`.

Each fault of `planted` in a child of its own, with a program of `check_scenarios` that it makes wrong; a line of JSON for each.
"""

from __future__ import annotations

import json
import os
import sys

from tests.cpu import check_scenarios, planted

#: fault, program, the kinds of failure that tell it
TABLE = [
    ("none", "bytes_of_words", (None,)),
    ("none", "scatter_only", (None,)),
    ("none", "pairs_only", (None,)),
    ("none", "rows_only", (None,)),
    ("none", "two_only", (None,)),
    ("none", "reversed_only", (None,)),
    ("none", "histogram_only", (None,)),
    ("none", "halo_only", (None,)),
    ("an_element_short", "map_again", ("write", "beside")),
    ("an_element_short", "rows_only", ("difference", "beside")),
    ("a_read_element_short", "halo_only", ("difference", "read")),
    ("a_read_element_short", "reversed_only", ("difference", "read")),
    ("a_row_too_far", "rows_only", ("difference", "beside")),
    ("hardly_a_write", "reversed_only", ("beside",)),
    ("hardly_a_write", "rows_only", ("beside",)),
    ("never_read", "map_only", ("difference",)),
    ("sure_of_all", "scatter_only", ("difference", "race", "exact")),
    ("another_operation", "histogram_only", ("difference",)),
    ("atomics_are_writes", "histogram_only", ("difference",)),
    ("coarse_units", "bytes_of_words", ("difference",)),
    ("coarse_units", "scatter_only", ("difference",)),
    ("dropped_access", "two_only", ("difference", "beside")),
    ("dropped_access", "bytes_of_words", ("difference",)),
    ("no_padding", "pairs_only", ("difference",)),
    ("nothing_kept", "pairs_only", ("difference",)),
    ("nothing_kept", "scatter_only", ("difference",)),
    ("all_is_changed", "scatter_only", ("difference",)),
    ("the_last_is_lost", "scatter_only", ("difference",)),
    ("owners_swapped", "map_only", ("difference",)),
    ("shifted_by_one_group", "rows_only", ("difference",)),
    ("none", "appended_only", (None,)),
    ("another_order", "appended_only", (None,)),
    ("two_exchanged", "appended_only", (None,)),
    ("a_record_lost", "appended_only", ("difference",)),
    ("a_record_twice", "appended_only", ("difference",)),
    ("halves_of_records", "appended_only", ("difference",)),
    ("another_survivor", "overflowing_only", (None,)),
    ("none", "sums_only", (None,)),
    ("a_sum_rounded", "sums_only", (None,)),
    ("a_term_lost", "sums_only", ("difference",)),
    ("unused_results", "appended_by_all", ("difference", "race")),
]


def run(fault: str, name: str) -> dict[str, object]:
    """What the check says, from a child; its signal where it died of one."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            planted.FAULTS[fault]()
            found = check_scenarios.SCENARIOS[name]() | {"nchecked": check_scenarios.nchecked()}
            os.write(writing, json.dumps(found).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    return dict(json.loads(text)) if text else {"kind": f"died: {status}"}


def main() -> None:
    for fault, name, kinds in TABLE:
        found = run(fault, name)
        print(json.dumps({"fault": fault, "program": name, "expected": kinds, **found}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
