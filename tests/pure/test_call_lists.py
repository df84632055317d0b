"""Lists of calls and prepared calls: each call gets its parameters, and a list ends where one fails."""

from __future__ import annotations

import ctypes
import threading
import time
import weakref
from functools import partial
from pathlib import Path

import pytest

from vdev.backends import call_lists
from vdev.backends.call_lists import CallList, DriverCall
from vdev.packaging import library
from vdev.process.finalisers import collect

pytestmark = pytest.mark.skipif(not any(True for _ in library.compilers()), reason="there is no C compiler")

#: functions that note what they are given: narrow parameters, and more of them than there are registers
SOURCE = r"""
#include <stdint.h>
#include <time.h>
#pragma GCC visibility push(default)
uint64_t seen[64]; int count;
#define NOTE(value) seen[count++ % 64] = (uint64_t)(value)
int none(void) { NOTE(100); return 0; }
int narrow(unsigned char a, int b, uint64_t c) { NOTE(a); NOTE((int64_t)b); NOTE(c); return 0; }
int launch(void *f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned h, void *s, void **p, void **x)
{ NOTE(f); NOTE(a); NOTE(b); NOTE(c); NOTE(d); NOTE(e); NOTE(g); NOTE(h); NOTE(s); NOTE(p); NOTE(x); return 0; }
int twelve(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j, int k, int l)
{ NOTE(a + b + c + d + e + f + g + h + i + j + k + 2 * l); return 0; }
int five(int a, int b, int c, int d, int e) { NOTE(a + 2 * b + 3 * c + 4 * d + 5 * e); return 0; }
int fail(int status) { NOTE(status); return status; }
int meet(volatile int *entered, volatile int *seen, int most_ms) /* 0 once `seen`, 1 where nobody comes */
{
    struct timespec pause = {0, 1000000};
    for (*entered = 1; most_ms-- > 0; nanosleep(&pause, 0)) if (*seen) return 0;
    return 1;
}
"""


@pytest.fixture(scope="module")
def noting(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("noting")
    source, target = folder / "noting.c", folder / "noting.so"
    source.write_text(SOURCE)
    library._compiled(source, target, [], [])
    return ctypes.PyDLL(str(target))


@pytest.fixture(params=[True, False], ids=["prepared", "by ctypes"])
def prepares(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a list is made by a prepared call: without them it is made by ctypes."""
    call_lists.walker()
    assert call_lists._prepare is not None
    if not request.param:
        monkeypatch.setattr(call_lists, "_prepare", None)
    return bool(request.param)


def _seen(noting: ctypes.CDLL) -> list[int]:
    count = ctypes.c_int.in_dll(noting, "count")
    found = list((ctypes.c_uint64 * 64).in_dll(noting, "seen"))[: count.value]
    count.value = 0
    return found


def test_each_function_gets_its_parameters(noting: ctypes.CDLL, prepares: bool) -> None:
    wide = 0xFEDC_BA98_7654_3210
    calls: list[DriverCall] = [
        partial(noting["none"]),
        partial(noting["narrow"], 200, ctypes.c_int(-5), ctypes.c_uint64(wide)),
        partial(
            noting["launch"], ctypes.c_void_p(wide), *range(1, 8), wide - 1, None or 0, ctypes.c_void_p(7)
        ),
        partial(noting["twelve"], *range(12)),
        partial(noting["five"], 1, 2, 3, 4, 5),
    ]
    made = CallList(call_lists.walker(), calls)
    expected = [100, 200, -5 & (1 << 64) - 1, wide, wide, *range(1, 8), wide - 1, 0, 7, 77, 55]
    for _ in range(2):
        assert made.make_all() == 5
        assert _seen(noting) == expected


def test_a_list_ends_where_a_call_fails_and_goes_on_from_any_place(
    noting: ctypes.CDLL, prepares: bool
) -> None:
    calls: list[DriverCall] = [partial(noting["fail"], status) for status in (0, 0, 719, 0, -3, 0)]
    made = CallList(call_lists.walker(), calls)
    assert (made.make_all(), made.result, _seen(noting)) == (2, 719, [0, 0, 719])
    assert (made.make(3, 6), made.result, _seen(noting)) == (4, -3, [0, -3 & (1 << 64) - 1])
    assert (made.make(5, 6), _seen(noting)) == (6, [0])
    assert (made.make(0, 2), _seen(noting)) == (2, [0, 0])
    assert (made.make(4, 4), _seen(noting)) == (4, [])


def test_places_are_left_out_and_filled_in(noting: ctypes.CDLL, prepares: bool) -> None:
    calls: list[DriverCall] = [partial(noting["narrow"], at, 0, 0) for at in range(3)]
    made = CallList(call_lists.walker(), calls, {0, 2})
    assert (made.make_all(), _seen(noting)) == (3, [1, 0, 0])
    first, last, words = made.place(0, 2), made.place(2), made.words
    words[first.parameter], words[first.at] = 77, first.function
    words[last.at] = last.function
    assert (made.make_all(), _seen(noting)) == (3, [0, 0, 77, 1, 0, 0, 2, 0, 0])
    words[first.at] = words[made.place(1).at] = 0
    assert (made.make_all(), _seen(noting)) == (3, [2, 0, 0])


@pytest.mark.parametrize("waits", [False, True])
def test_a_prepared_call_returns_what_the_function_returns(
    noting: ctypes.CDLL, prepares: bool, waits: bool
) -> None:
    for status in (0, 719, -5, (1 << 31) - 1, -(1 << 31)):
        call = partial(noting["fail"], ctypes.c_int(status))
        made = call_lists.prepared(call, waits=waits)
        assert (made is call) is not prepares
        assert [made(), made()] == [status, status]
        assert _seen(noting) == [status & (1 << 64) - 1] * 2
    made = call_lists.prepared(
        partial(noting["narrow"], 200, ctypes.c_int(-5), ctypes.c_uint64(7)), waits=waits
    )
    assert (made(), _seen(noting)) == (0, [200, -5 & (1 << 64) - 1, 7])


def test_a_parameter_of_a_prepared_call_changes(noting: ctypes.CDLL, prepares: bool) -> None:
    call = partial(noting["narrow"], 1, ctypes.c_int(-2), ctypes.c_uint64())
    made, (set_to, set_other) = call_lists.changing(call, 2, 1)
    assert (made is call) is not prepares
    for value in (5, (1 << 64) - 1):
        set_to(value)
        assert (made(), _seen(noting)) == (0, [1, -2 & (1 << 64) - 1, value])
    set_other(7)
    assert (made(), _seen(noting)) == (0, [1, 7, (1 << 64) - 1])


def test_calls_take_place_in_other_memories(prepares: bool) -> None:
    """Addresses in two memories, one of them in two words; a word that is none stays."""
    words = (ctypes.c_uint64 * 4)(1000, 4096 + 24, 77, 1000 - 8)
    at = [ctypes.addressof(words) + 8 * number for number in range(4)]
    addresses = call_lists.Addresses([(at[0], 0), (at[1], 1), (at[3], 0)], [1000, 4096], 16)
    assert addresses.move([1000 + 160, 4096])
    assert [*words] == [1160, 4120, 77, 1152]
    high = (1 << 63) + 4096
    assert addresses.move([1000 - 320, high])
    assert [*words] == [680, high + 24, 77, 672]
    for refused in ([1000 + 8, 4096], [1000, 4096 - 24]):
        assert not addresses.move(refused)
        assert [*words] == [680, high + 24, 77, 672]
    with pytest.raises(ValueError, match="same size"):
        addresses.move([1000])
    assert addresses.move([1000, 4096])
    assert [*words] == [1000, 4120, 77, 992]


def test_other_calls_than_of_ctypes_stay_as_they_are() -> None:
    call_lists.walker()
    call = partial(int, "5")
    assert call_lists.prepared(call) is call
    made = call_lists.prepared(partial(ctypes.PyDLL(None)["abs"], 5))
    assert call_lists.prepared(made) is made


def test_a_prepared_call_keeps_what_it_points_to(noting: ctypes.CDLL) -> None:
    class Pointer(ctypes.c_void_p):
        """An address with what is there."""

    call_lists.walker()
    target = ctypes.c_int(0)
    pointer = Pointer(ctypes.addressof(target))
    gone = weakref.ref(pointer)
    made = call_lists.prepared(partial(noting["meet"], pointer, pointer, 1))
    del pointer
    collect()
    assert gone() is not None
    assert (made(), target.value) == (0, 1)
    del made
    assert gone() is None


def test_a_list_keeps_its_words_while_it_is_made(noting: ctypes.CDLL) -> None:
    made = CallList(call_lists.walker(), [partial(noting["fail"], each) for each in (0, 0, 3)])
    make_all = made._all
    assert make_all is not None
    gone = weakref.ref(made.words)
    del made
    collect()
    assert (make_all(), _seen(noting), gone() is None) == ((2 << 32) + 3, [0, 0, 3], False)


@pytest.mark.parametrize("waits", [False, True])
def test_other_threads_run_during_calls_that_wait_and_no_others(noting: ctypes.CDLL, waits: bool) -> None:
    call_lists.walker()
    entered, seen = ctypes.c_int(0), ctypes.c_int(0)
    places = [ctypes.c_void_p(ctypes.addressof(each)) for each in (entered, seen)]
    made = call_lists.prepared(partial(noting["meet"], *places, 20_000 if waits else 200), waits=waits)

    def see() -> None:
        while not entered.value:
            time.sleep(0)
        seen.value = 1

    thread = threading.Thread(target=see)
    thread.start()
    assert made() == (0 if waits else 1)
    thread.join()


def test_threads_make_prepared_calls(noting: ctypes.CDLL) -> None:
    call_lists.walker()
    wrong: list[int] = []

    def make(status: int) -> None:
        for _ in range(200):
            made = call_lists.prepared(partial(noting["fail"], status), waits=status % 2 == 0)
            wrong.extend(found for _ in range(20) if (found := made()) != status)

    threads = [threading.Thread(target=make, args=(number + 1,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _seen(noting)
    assert not wrong


def test_threads_walk_lists_of_their_own(noting: ctypes.CDLL) -> None:
    wrong: list[tuple[int, int]] = []

    def walk(status: int) -> None:
        made = CallList(call_lists.walker(), [partial(noting["fail"], each) for each in (0, 0, status)])
        for _ in range(2000):
            if (made.make_all(), made.result) != (2, status):
                wrong.append((status, made.result))

    threads = [threading.Thread(target=walk, args=(number + 1,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _seen(noting)
    assert not wrong


def test_without_a_compiler_and_a_library_it_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VDEV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setattr(library, "calls_key", lambda: "of other sources")
    call_lists._walker.cache_clear()
    try:
        for _ in range(2):
            with pytest.raises(call_lists.NoWalker, match="no-such-compiler"):
                call_lists.walker()
    finally:
        call_lists._walker.cache_clear()


def test_the_library_is_compiled_once_into_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VDEV_CACHE", "1")
    monkeypatch.setenv("VDEV_CACHE_DIR", str(tmp_path / "cache"))
    key = library.calls_key()
    monkeypatch.setattr(library, "calls_key", lambda: key[:-1] + "x")
    try:
        _walk_anew(monkeypatch)
        (made,) = (tmp_path / "cache").rglob(library.CALLS_NAME)
        whole = made.read_bytes()
        made.write_bytes(whole[:100])
        with pytest.raises(call_lists.NoWalker, match="no-such-compiler"):
            _walk_anew(monkeypatch, "no-such-compiler")
        _walk_anew(monkeypatch)
        assert len(made.read_bytes()) > 100, "cut short, it was compiled again"
        _walk_anew(monkeypatch, "no-such-compiler")
    finally:
        call_lists._walker.cache_clear()


def _walk_anew(monkeypatch: pytest.MonkeyPatch, compiler: str | None = None) -> None:
    """Find the library as a new process does."""
    if compiler is None:
        monkeypatch.delenv("CC", raising=False)
    else:
        monkeypatch.setenv("CC", compiler)
    call_lists._walker.cache_clear()
    call_lists.walker()


def test_without_a_cache_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VDEV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("VDEV_CACHE", "0")
    monkeypatch.setattr(library, "calls_key", lambda: "of other sources")
    call_lists._walker.cache_clear()
    try:
        call_lists.walker()
        assert not list(tmp_path.rglob("*"))
    finally:
        call_lists._walker.cache_clear()
