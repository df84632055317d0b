"""Processor time leaves out full collections of garbage, which look at all objects of the process, and nothing else."""

from __future__ import annotations

import gc
import threading
import time

import pytest

from vdev.process import processor_time
from vdev.process.finalisers import collect as collect_all
from vdev.process.processor_time import busy_ns, watch_collections


@pytest.fixture
def objects():
    """Many that the collector has to look at."""
    watch_collections()
    watch_collections()
    assert gc.callbacks.count(processor_time._note) == 1
    return [[number] for number in range(300_000)]


def taken(collect):
    """(processor time, that of `busy_ns`) of a call, during which nothing is collected but what it collects itself."""
    gc.disable()
    try:
        began, busy = time.thread_time_ns(), busy_ns()
        collect()
        return time.thread_time_ns() - began, busy_ns() - busy
    finally:
        gc.enable()


def test_full_collections_are_left_out(objects):
    for _ in range(3):
        whole, busy = taken(collect_all)
        assert 0 <= busy < whole / 2


def test_work_counts(objects):
    whole, busy = taken(lambda: sum(range(300_000)))
    assert busy > whole / 2
    whole, busy = taken(lambda: gc.collect(1))
    assert busy > whole / 2


def test_each_thread_has_its_own(objects):
    """What another thread collects takes nothing from this one's time."""
    gone = threading.Event()

    def collecting():
        for _ in range(3):
            gc.collect()
        gone.set()

    def work():
        thread = threading.Thread(target=collecting)
        thread.start()
        while not gone.is_set():
            sum(range(1000))
        thread.join()

    whole, busy = taken(work)
    assert busy > whole / 2


def test_what_plans_take_leaves_them_out():
    """The session counts its planning by this clock."""
    from vdev.session import folding, immediate, launches, moves, weighed_recalls

    for module in (folding, immediate, launches, moves, weighed_recalls):
        assert module.busy_ns is busy_ns
