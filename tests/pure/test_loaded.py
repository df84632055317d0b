"""What is loaded is passed over by looks for garbage while a process is young, and is found by them as ever after that."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

BEGIN = """
import gc, weakref
from vdev.process import loaded

class Node:
    pass

def ring():
    node = Node()
    node.self = node
    return node

def full_looks():
    # Python looks at everything by itself, as often as it may
    gc.set_threshold(10, 1, 1)
    seen = []
    gc.callbacks.append(lambda phase, info: seen.append(info["generation"]) if phase == "stop" else None)
    kept = [[] for _ in range(2000)]
    gc.set_threshold(700, 10, 10)
    return seen.count(2)

before = ring()
lives = weakref.ref(before)
"""


def printed(script: str) -> list[str]:
    """The words that it prints in a process of its own, where nothing else is passed over."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
        timeout=600,
    )
    return done.stdout.split()


def test_a_young_process_does_not_look_at_it_by_itself() -> None:
    found = printed("""
        loaded.pass_over()
        del before
        print(full_looks() > 0, lives() is None, gc.get_freeze_count() > 1000)
    """)
    assert found == ["True", "False", "True"]


def test_a_look_that_is_asked_for_finds_everything() -> None:
    found = printed("""
        loaded.pass_over()
        del before
        gc.collect()
        print(lives() is None, gc.get_freeze_count())
    """)
    assert found == ["True", "0"]


def test_a_look_of_vdevs_own_leaves_it_out() -> None:
    found = printed("""
        loaded.pass_over()
        del before
        after = ring()
        lives_after = weakref.ref(after)
        del after
        loaded.look_at_the_rest()
        print(lives() is None, lives_after() is None, gc.get_freeze_count() > 1000)
        gc.collect()
        print(lives() is None)
    """)
    assert found == ["False", "True", "True", "True"]


@pytest.mark.skipif(
    sys.version_info >= (3, 14), reason="looks are made in steps there: none is at everything"
)
def test_a_process_that_is_not_young_looks_at_it_again() -> None:
    found = printed("""
        loaded.YOUNG = 0.0
        loaded.pass_over()
        del before
        print(full_looks() > 0, lives() is None, gc.get_freeze_count())
    """)
    assert found == ["True", "True", "0"]


def test_what_a_program_freezes_stays_so() -> None:
    before_it = printed("""
        gc.freeze()
        callbacks = len(gc.callbacks)
        loaded.pass_over()
        gc.collect()
        print(gc.get_freeze_count() > 1000, len(gc.callbacks) == callbacks)
    """)
    assert before_it == ["True", "True"]
    after_it = printed("""
        loaded.pass_over()
        more = [[] for _ in range(100)]
        gc.freeze()
        gc.collect()
        print(gc.get_freeze_count() > 1000)
    """)
    assert after_it == ["True"]


def test_it_is_done_when_the_stand_in_is_loaded() -> None:
    """By the hook, at the end of what it loads."""
    found = printed("""
        import sys, types
        stand_in, handles = types.ModuleType("stand_in"), types.ModuleType("handles")
        stand_in.populate = lambda module: module.__dict__.update(ring=ring())
        handles.use_handles = lambda: None
        sys.modules |= {"vdev.facade.stand_in": stand_in, "vdev.icd.joining": handles}
        from vdev import boot
        module = types.ModuleType("pyopencl._cl")
        boot.StandInFinder.exec_module(module)
        print(gc.get_freeze_count() > 1000, any(each is module.ring for each in gc.get_objects()))
    """)
    assert found == ["True", "False"]
