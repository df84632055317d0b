"""Handles: whoever asks for the source of real ones while another thread opens it waits for that."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from vdev.facade import handles


class Given:
    """A source of handles that knows one object."""

    def address_of(self, item: Any) -> int:
        return 64

    def item_at(self, address: int, kind: type) -> Any:
        return "an object"

    def take_back(self, address: int) -> bool:
        return True


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_open_addresses", "_addresses"):
        monkeypatch.setattr(handles, name, getattr(handles, name))


def test_a_thread_waits_for_another_that_opens_the_source_of_handles() -> None:
    """Told that there is none it would take a handle of C code's for an invalid one."""
    opening, may_end, found = threading.Event(), threading.Event(), []

    def opener() -> Given:
        opening.set()
        assert may_end.wait(60)
        return Given()

    handles.use_addresses(opener)
    first = threading.Thread(target=handles.addresses)
    first.start()
    assert opening.wait(60)
    second = threading.Thread(target=lambda: found.append((handles.item_of(64, str), handles.take_back(64))))
    second.start()
    second.join(0.1)
    early = list(found)
    may_end.set()
    for thread in (first, second):
        thread.join(60)
    assert early == []
    assert found == [("an object", True)]


def test_it_is_opened_once() -> None:
    opened: list[int] = []
    handles.use_addresses(lambda: opened.append(1))
    assert handles.addresses() is handles.addresses() is None
    assert opened == [1]
