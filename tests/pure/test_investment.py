"""What plans that are made once may take."""

from __future__ import annotations

from vdev.planner.investment import Investment


def spent(found: Investment, each: float) -> float:
    """Seconds of all plans that it pays, of so many each."""
    total = 0.0
    while found.pays(each):
        total += each
    return total


def test_nothing_is_paid_before_anything_is_gained() -> None:
    found = Investment()
    assert not found.pays(1e-6)
    found.earn(1.0, 1.0)
    assert not found.pays(1e-6)


def test_no_more_is_paid_than_was_gained() -> None:
    found = Investment()
    found.earn(1.0, 0.99)
    assert 0.008 < spent(found, 1e-3) < 0.0101


def test_no_more_is_paid_than_a_tenth_of_one_workers_time() -> None:
    found = Investment()
    found.earn(0.2, 0.1)
    assert 0.018 < spent(found, 1e-3) < 0.0201


def test_a_long_run_does_not_pay_for_long_losses() -> None:
    found = Investment()
    for _ in range(1000):
        found.earn(1.0, 0.5)
    assert spent(found, 1e-3) < 0.1001


def test_losses_are_taken_off() -> None:
    found = Investment()
    found.earn(1.0, 0.95)
    found.earn(1.0, 1.04)
    assert 0.008 < spent(found, 1e-3) < 0.0101
    found.earn(1.0, 2.0)
    assert not found.pays(1e-6)
    found.earn(1.0, 0.99)
    assert found.pays(5e-3), "a loss is forgotten when something is gained again"
