"""Measuring links and keeping what was measured: on simulated GPUs, and in a cache folder that somebody has been at."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.pure.virtual_gpus import COPY_SECONDS, Machine
from vdev.cli import links
from vdev.planner.timing import MachineTimes
from vdev.session import calibration, measuring
from vdev.session.session import Session


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VDEV_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "links"


def session(workers: int = 3) -> Session:
    machine = Machine({"touch": 1e-12})
    return Session([machine.opener(number) for number in range(workers)], min_items=None, plan_always=False)


def test_every_link_is_measured_and_what_is_found_is_kept(folder: Path) -> None:
    opened = session()
    try:
        found = measuring.measure(opened)
        assert {(link.source, link.target) for link in found.links} == {
            (a, b) for a in range(3) for b in range(3) if a != b
        }
        assert all(value >= 0 for value in dataclasses.astuple(found.times))
        assert found.times.launch > 0
        assert all(link.latency >= link.host > 0 and link.per_byte > 0 for link in found.links)
        text, lost = (links.as_text(["a", "b", "c"], found, stored=stored) for stored in (True, False))
        assert "2 to 1: 4096 bytes" in text
        assert text.endswith("stored for the time model, for these workers and this version of vdev")
        assert f"not stored: nothing can be written in {folder.parent}" in lost
        assert calibration.kept(opened.workers) is None
        calibration.keep(opened.workers, found.times)
        assert calibration.kept(opened.workers) == found.times
    finally:
        opened.close()
    again, other = session(), session(2)
    try:
        assert again.choosing is not None
        assert again.choosing.times.machine == found.times
        assert other.choosing is not None
        assert other.choosing.times.machine == MachineTimes(), "of other workers nothing is known"
    finally:
        again.close()
        other.close()


def test_occasional_delays_of_a_thread_are_not_measured(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine({"touch": 1e-12}, call=2e-6)
    opened = Session([machine.opener(number) for number in range(2)], min_items=None, plan_always=False)
    readings = itertools.count()
    delayed = [0.0]

    def clock() -> float:
        if next(readings) % 7 == 0:
            delayed[0] += 1e-3
        return machine.host + delayed[0]  # which waits for devices advance

    monkeypatch.setattr(measuring, "time", SimpleNamespace(perf_counter=clock))
    try:
        found = measuring.measure(opened)
    finally:
        opened.close()
    for link in found.links:
        assert COPY_SECONDS <= link.latency < 2 * COPY_SECONDS
        assert 1 / link.per_byte == pytest.approx(machine.peer_rate, rel=0.05)
    assert found.times.launch < 1e-3


def test_what_is_measured_is_put_back(folder: Path) -> None:
    opened = session()
    try:
        before = opened.launch_options, opened.choosing
        measuring.measure(opened)
        assert (opened.launch_options, opened.choosing) == before
    finally:
        opened.close()


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}x", b'{"launch": "much"}', b'{"speed": 1}', b'{"launch": 5.0}', b'{"launch": -1}'],
)
def test_what_cannot_be_used_is_not(folder: Path, content: bytes) -> None:
    opened = session()
    try:
        calibration._store().put(calibration.machine_key(opened.workers), content, 1 << 20)
        assert calibration.kept(opened.workers) is None
    finally:
        opened.close()


def test_files_that_others_may_have_written_are_not_used(folder: Path) -> None:
    opened = session()
    try:
        calibration.keep(opened.workers, MachineTimes(launch=1e-6))
        assert calibration.kept(opened.workers) == MachineTimes(launch=1e-6)
        folder.chmod(0o777)
        assert calibration.kept(opened.workers) is None
    finally:
        opened.close()


def test_a_machine_is_known_again_in_another_process() -> None:
    """Devices of OpenCL's are told apart by addresses, which are others there."""
    opened = session(1)
    opened.close()

    def machine(*addresses: int) -> str:
        return calibration.machine_key(
            [
                dataclasses.replace(opened.workers[0], backend="opencl", device_key=("opencl", each))
                for each in addresses
            ]
        )

    assert machine(1000, 1000) == machine(2000, 2000)
    assert len({machine(1), machine(1, 1), machine(1, 2), machine(1, 1, 2), machine(1, 2, 2)}) == 5
