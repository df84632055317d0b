"""What is kept between runs: other users' files, links, loose modes, damage, and several writers at once."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from pathlib import Path

import pytest

from tests.pure.own_thread import on_this_thread
from vdev.process import private_files
from vdev.process.private_files import Store, Untrusted, private_folder, read_private, write_private

KEPT = 1 << 20


@pytest.fixture
def folder(tmp_path) -> Path:
    return private_folder(tmp_path / "cache")


@pytest.fixture
def store(folder) -> Store:
    found = Store(folder / "entries", ".bin")
    found.put("key", b"content", KEPT)
    assert found.get("key") == b"content"
    return found


@pytest.fixture
def somebody_elses(monkeypatch):
    """Lets a file or folder appear to belong to another user; tests need not run as root for it."""
    real, others = os.fstat, set()

    def fstat(handle):
        state = real(handle)
        values = list(state)
        if state.st_ino in others:
            values[4] += 1  # st_uid
        return os.stat_result(values)

    monkeypatch.setattr(private_files.os, "fstat", fstat)
    return lambda path: others.add(os.stat(path).st_ino)


def entry(store: Store) -> Path:
    return store._folder / store.name("key")


def test_a_new_folder_is_the_users_alone(tmp_path):
    mask = os.umask(0)
    try:
        made = private_folder(tmp_path / "a/b/c")
        write_private(made, "file", b"x")
    finally:
        os.umask(mask)
    for path in (made / "file", made, made.parent, made.parent.parent):
        assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
def test_a_folder_that_others_may_write_to(folder, mode):
    folder.chmod(mode)
    with pytest.raises(Untrusted, match=f"others may write to it \\(mode {mode:04o}\\)"):
        private_folder(folder)


def test_a_folder_that_others_may_read(folder):
    """As version 0.1.0 made it: nobody else can have put anything there."""
    folder.chmod(0o755)
    assert private_folder(folder) == folder


def test_a_folder_below_one_that_others_may_write_to(folder):
    folder.parent.chmod(0o777)
    with pytest.raises(Untrusted, match="above it"):
        private_folder(folder)
    folder.parent.chmod(0o1777)  # as /tmp: everybody keeps their own
    assert private_folder(folder) == folder


def test_a_link_is_no_folder(folder):
    link = folder.parent / "link"
    link.symlink_to(folder)
    with pytest.raises(Untrusted, match="is a link"):
        private_folder(link)


def test_somebody_elses_folder(folder, somebody_elses):
    somebody_elses(folder)
    with pytest.raises(Untrusted, match="belongs to user"):
        private_folder(folder)


def test_a_file_in_the_place_of_the_folder(tmp_path):
    (tmp_path / "cache").touch()
    with pytest.raises(OSError, match="Not a directory"):
        private_folder(tmp_path / "cache")


def test_files_that_are_not_to_be_trusted(folder, somebody_elses):
    for name in ("mine", "loose", "theirs", "target"):
        write_private(folder, name, b"content")
    (folder / "loose").chmod(0o666)
    (folder / "link").symlink_to(folder / "target")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe", 0o600)
    somebody_elses(folder / "theirs")
    names = ("mine", "loose", "theirs", "link", "folder", "pipe", "missing")
    assert [read_private(folder, name) for name in names] == [b"content"] + [None] * 6


def test_the_store_finds_what_it_kept(store):
    assert store.get("other key") is None
    assert Store(store._folder, ".bin").get("key") == b"content"


@pytest.mark.parametrize(
    "damage", ["cut", "longer", "flipped", "another format", "empty", "of another entry"]
)
def test_an_entry_that_is_not_as_it_was_written(store, damage):
    written = entry(store).read_bytes()
    store.put("other", b"other content", KEPT)
    entry(store).write_bytes(
        {
            "cut": written[:-1],
            "longer": written + b"x",
            "flipped": written[:-1] + bytes([written[-1] ^ 1]),
            "another format": b"vdev entry 1\n" + written[len(b"vdev entry 2\n") :],
            "empty": b"",
            "of another entry": (store._folder / store.name("other")).read_bytes(),
        }[damage]
    )
    assert store.get("key") is None
    store.put("key", b"content", KEPT)
    assert store.get("key") == b"content"


def test_somebody_elses_entry(store, somebody_elses):
    somebody_elses(entry(store))
    assert store.get("key") is None


@pytest.mark.parametrize("of", ["the store", "the cache"])
def test_a_store_that_others_may_write_to_finds_nothing(store, caplog, of):
    (store._folder if of == "the store" else store._folder.parent).chmod(0o777)
    for _ in range(2):
        assert store.get("key") is None
        store.put("key", b"new", KEPT)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert b"new" not in entry(store).read_bytes()


def test_folders_above_are_looked_at_once_for_each_folder(store, monkeypatch):
    looked: list[Path] = []
    real = private_files._check_parents
    monkeypatch.setattr(private_files, "_check_parents", lambda path: looked.append(path) or real(path))
    above = store._folder.parent
    for _ in range(3):
        assert store.get("key") == b"content"
    assert looked == []  # they were when the fixture found the entry
    # who may write to the folder above can put another one in its place, which is looked at again
    copy = above.with_name("copy")
    shutil.copytree(above, copy)
    above.rename(above.with_name("before"))
    copy.rename(above)
    assert store.get("key") == b"content"
    assert looked == [above]


def test_another_folder_below_one_that_others_may_write_to(store, caplog):
    above = store._folder.parent
    assert store.get("key") == b"content"
    shutil.copytree(above, above.with_name("copy"))
    above.rename(above.with_name("before"))
    above.with_name("copy").rename(above)
    above.parent.chmod(0o777)
    try:
        assert store.get("key") is None
    finally:
        above.parent.chmod(0o700)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_link_in_the_place_of_the_stores_folder(store, caplog):
    moved = store._folder.with_name("moved")
    store._folder.rename(moved)
    store._folder.symlink_to(moved)
    assert store.get("key") is None
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_full_disk_leaves_nothing_behind(folder, monkeypatch):
    real = os.fdopen

    def full(handle, mode):
        file = real(handle, mode)
        if mode == "wb":
            file.close()
            raise OSError(errno.ENOSPC, "No space left on device")
        return file

    monkeypatch.setattr(private_files.os, "fdopen", on_this_thread(full, real))
    store = Store(folder / "entries", ".bin")
    store.put("key", b"content", KEPT)
    assert store.get("key") is None
    assert list((folder / "entries").iterdir()) == []


def test_what_killed_processes_leave_goes(store):
    old, fresh = (store._folder / f".{name}.bin.1.ab.part" for name in ("old", "fresh"))
    for path in (old, fresh):
        path.write_bytes(b"half of")
    os.utime(old, (0, 0))
    Store(store._folder, ".bin").put("another", b"content", KEPT)
    assert not old.exists()
    assert fresh.exists()


def test_an_interrupt_leaves_nothing_behind(folder, monkeypatch):
    def interrupted(*arguments, **further):
        raise KeyboardInterrupt

    monkeypatch.setattr(private_files.os, "replace", on_this_thread(interrupted, os.replace))
    with pytest.raises(KeyboardInterrupt):
        Store(folder / "entries", ".bin").put("key", b"content", KEPT)
    assert list((folder / "entries").iterdir()) == []


def test_all_entries_are_not_looked_at_for_each(folder, monkeypatch):
    looked: list[int] = []
    real = os.listdir
    store = Store(folder / "entries", ".bin")
    counted = on_this_thread(lambda opened: looked.append(opened) or real(opened), real)
    monkeypatch.setattr(private_files.os, "listdir", counted)
    for number in range(20):
        store.put(f"key {number}", bytes(10), 1 << 20)
    assert len(looked) == 1
    store.put("large", bytes(1 << 17), 1 << 20)
    assert len(looked) == 2


def test_writers_at_once(folder):
    stores = [Store(folder / "entries", ".bin") for _ in range(4)]
    contents = {bytes([number]) * 10_000 for number in range(4)}
    seen: list[bytes | None] = []

    def work(store: Store, content: bytes) -> None:
        for _ in range(25):
            store.put("key", content, KEPT)
            seen.append(store.get("key"))

    threads = [threading.Thread(target=work, args=pair) for pair in zip(stores, contents, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 100
    assert set(seen) <= contents
    assert len(list((folder / "entries").iterdir())) == 1
