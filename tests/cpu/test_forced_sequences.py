"""Random sequences with every way of running launches forced in turn: a few of those that `forced_sequences` runs by the thousand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from vdev.translators.ranges.labelled import Labelled

from tests.cpu.forced_sequences import Different, Machine, compare
from vdev.planner import pending, tidying
from vdev.planner.builder import PlanBuilder

SEEDS = range(40)
#: until a planted defect is found
MORE_SEEDS = range(200)


@pytest.fixture(scope="module")
def machines() -> Iterator[tuple[Machine, Machine]]:
    found = Machine("cpu:1", forced=False), Machine("cpu:3", forced=True)
    yield found
    for machine in found:
        machine.session.close()


def _compare_all(one: Machine, several: Machine, seeds: range = SEEDS) -> None:
    for seed in seeds:
        compare(one, several, seed)


def test_every_way_gives_the_bytes_of_one_worker(machines: tuple[Machine, Machine]) -> None:
    _compare_all(*machines)
    taken = machines[1].ways
    ways = (
        "cycle",
        "even",
        "uneven",
        "kept",
        "let go",
        "over 2",
        "over 3",
        "pending",
        "merged",
        "trusted",
        "twins",
        "tidied",
        "brought together",
        "joined",
        "memory of their own",
        "usual cuts",
        "held",
        "in pieces",
    )
    assert all(taken[way] >= 3 for way in ways), taken
    assert not machines[0].ways["cycle"]


_bring_together = tidying.bring_together


def _with_what_is_pending(builder: PlanBuilder, slot: int, held: Labelled | None) -> None:
    """A buffer is brought together, and what is pending then counts as valid where it lies."""
    _bring_together(builder, slot, held)
    draft = builder.drafts[slot]
    for parts in list(draft.pending.values()):
        for holder, part in list(parts.items()):
            draft.add(holder, part)


@pytest.mark.parametrize("defect", ["stale", "identity", "pending"])
def test_a_planted_defect_is_found(monkeypatch: pytest.MonkeyPatch, defect: str) -> None:
    """Bytes that another worker has written are not brought; parts of reductions begin with the wrong value, or count as valid."""
    if defect == "identity":
        monkeypatch.setattr(pending, "identity_of", lambda op, dtype: b"\1" * 4)
    elif defect == "pending":
        monkeypatch.setattr(tidying, "bring_together", _with_what_is_pending)
    else:
        monkeypatch.setattr(PlanBuilder, "make_valid", lambda *_: None)
    one, several = Machine("cpu:1", forced=False), Machine("cpu:3", forced=True)
    try:
        with pytest.raises(Different):
            _compare_all(one, several, MORE_SEEDS)
    finally:
        one.session.close()
        several.session.close()
