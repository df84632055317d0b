"""The table of switches: what each may say, and what a wrong value gets."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdev.process import folders, switches
from vdev.process.switches import SwitchError, WorkerSpec, parse_workers

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("text", "specs"),
    [
        ("cpu", [WorkerSpec("cpu")]),
        ("cpu:4", [WorkerSpec("cpu", (), 4)]),
        ("opencl:0.0", [WorkerSpec("opencl", (0, 0))]),
        ("opencl:0.0,0.1", [WorkerSpec("opencl", (0, 0)), WorkerSpec("opencl", (0, 1))]),
        ("opencl:0.0*3", [WorkerSpec("opencl", (0, 0), 3)]),
        ("opencl:1.2,1.2", [WorkerSpec("opencl", (1, 2), 2)]),
        ("cuda", [WorkerSpec("cuda")]),
        ("cuda:0,2", [WorkerSpec("cuda", (0,)), WorkerSpec("cuda", (2,))]),
        ("cuda:0-2", [WorkerSpec("cuda", (0,)), WorkerSpec("cuda", (1,)), WorkerSpec("cuda", (2,))]),
        ("cuda:1, cpu:2", [WorkerSpec("cuda", (1,)), WorkerSpec("cpu", (), 2)]),
        ("auto", [WorkerSpec("auto")]),
    ],
)
def test_workers(monkeypatch, text, specs):
    monkeypatch.setenv("VDEV_WORKERS", text)
    assert switches.workers() == tuple(specs)


@pytest.mark.parametrize(
    "text",
    ["cpu:0", "cpu:", "cpu:-1", "cpu:257", "cpu:2,2", "cpu:²", "0", "0.0", "opencl", "opencl:0",
     "opencl:0.0*0", "opencl:0.x", "cuda,0", "cuda:3-1", "cuda:", "gpu:1", "auto:1", "auto,cpu:1", ",",
     "cpu:1,", "CPU:1"],
)  # fmt: skip
def test_wrong_workers(monkeypatch, text):
    monkeypatch.setenv("VDEV_WORKERS", text)
    with pytest.raises(SwitchError, match=r"VDEV_WORKERS=.*valid: auto, cpu:N, opencl:P\.D"):
        switches.workers()


_devices = st.one_of(
    st.just(("cpu", ())),
    st.tuples(st.just("opencl"), st.tuples(st.integers(0, 9), st.integers(0, 9))),
    st.tuples(st.just("cuda"), st.tuples(st.integers(0, 63))),
)


@given(st.dictionaries(_devices, st.integers(1, switches.MAX_WORKERS), min_size=1, max_size=6))
def test_a_specification_prints_as_it_was_parsed(wanted):
    specs = tuple(WorkerSpec(kind, device, count) for (kind, device), count in wanted.items())
    assert parse_workers(",".join(map(str, specs))) == specs


@given(st.text(st.sampled_from("cpuodalen:.,*-0129 "), max_size=12))
def test_any_text_is_parsed_or_refused(text):
    try:
        specs = parse_workers(text)
    except ValueError:
        return
    assert specs
    assert all(1 <= spec.count <= switches.MAX_WORKERS for spec in specs)


def test_defaults(monkeypatch):
    for switch in switches.SWITCHES:
        monkeypatch.delenv(switch.name, raising=False)
    monkeypatch.setenv("VDEV_MIN_ITEMS", "")  # empty is unset
    assert not switches.enabled()
    assert switches.workers() == (WorkerSpec("auto"),)
    assert switches.min_items() is None
    assert switches.memory() is None
    assert switches.log_level() is None
    assert folders.cache_dir() == Path.home() / ".cache/vdev"


def test_values_are_read_at_each_call(monkeypatch):
    for text in ("0", "7"):
        monkeypatch.setenv("VDEV_MIN_ITEMS", text)
        assert switches.min_items() == int(text)
    monkeypatch.setenv("VDEV_LOG", "info")
    assert switches.log_level() == logging.INFO


@pytest.mark.parametrize(
    ("name", "text"),
    [("VDEV", "yes"), ("VDEV_MIN_ITEMS", "-1"), ("VDEV_MIN_ITEMS", "1e3"), ("VDEV_LOG", "loud")],
)
def test_a_wrong_value_names_the_valid_ones(monkeypatch, name, text):
    monkeypatch.setenv(name, text)
    switch = next(switch for switch in switches.SWITCHES if switch.name == name)
    with pytest.raises(SwitchError) as caught:
        switch.value()
    assert str(caught.value).startswith(f"{name}={text!r} is not valid")
    assert switch.valid in str(caught.value)


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("64M", 64 << 20), ("0.5g", 512 << 20), ("512MiB", 512 << 20), ("100000", 100000), ("50%", 500 << 20),
     ("0.25", 250 << 20), (".5", 500 << 20), ("1.0", 1000 << 20), ("2T", 1000 << 20)],
)  # fmt: skip
def test_memory(monkeypatch, text, nbytes):
    monkeypatch.setenv("VDEV_MEMORY", text)
    limit = switches.memory()
    assert limit is not None
    assert limit.of(1000 << 20) == nbytes


@pytest.mark.parametrize(
    "text", ["0", "1", "63K", "0%", "101%", "-1M", "1e9", "64X", "M", "%", "half", "1M2", "²M"]
)
def test_wrong_memory(monkeypatch, text):
    monkeypatch.setenv("VDEV_MEMORY", text)
    with pytest.raises(SwitchError, match=r"VDEV_MEMORY=.*valid: all, a number of bytes from 64K"):
        switches.memory()


def test_unknown_names():
    environ = {"VDEV": "1", "VDEV_WORKERS": "cpu:1", "VDEV_WORKES": "cpu:1", "VDEVICE": "1"}
    assert switches.unknown(environ) == ["VDEV_WORKES"]
    assert switches.slips(environ) == [
        ("VDEV_WORKES is set but is not a switch", "did you mean VDEV_WORKERS?")
    ]
    ((_, remedy),) = switches.slips({"VDEV_XYZZY_PLUGH": "1"})
    assert remedy == "unset it; `vdev-info` lists the switches"


def test_nothing_else_is_read_from_the_environment():
    """Every VDEV_ name in the sources is a switch."""
    named = set()
    for path in (ROOT / "vdev").rglob("*.py"):
        named |= set(re.findall(r"\bVDEV(?:_[A-Z_]+)?\b", path.read_text()))
    assert named == {switch.name for switch in switches.SWITCHES}
