"""The disk cache: what it gives back, and what it does about damage."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import warnings
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto.errors import CacheWarning
from pypto.runtime.disk_cache.cache import Cache, CacheKey, frame, unframe
from pypto.runtime.disk_cache.store import DATABASE, FORMAT
from tests.runtime.caching import KEY, OTHER, PAYLOAD, database, degrades_to_memory, fail, overwrite

# Keys and framing


def test_the_digest_is_the_same_everywhere() -> None:
    assert KEY.digest == "8553dd525640009ad46c0cec494f70a72351599feb97f2956628d9e225c2f70e"


@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3) | st.binary(max_size=3)), max_size=3), st.data())
def test_two_keys_share_no_record(parts: list[tuple[str, bytes | str]], data: st.DataObject) -> None:
    joined = "".join(value if isinstance(value, str) else value.decode("latin-1") for part in parts for value in part)
    cut = data.draw(st.integers(0, len(joined)))
    alike = CacheKey(((joined[:cut], joined[cut:]),))
    assert (alike.record == CacheKey(tuple(parts)).record) == (alike.parts == tuple(parts))


def test_bytes_and_text_of_a_part_differ() -> None:
    assert CacheKey((("a", "b"),)).digest != CacheKey((("a", b"b"),)).digest


@given(st.binary(max_size=40), st.binary(max_size=200))
def test_unframe_gives_back_what_was_framed(record: bytes, payload: bytes) -> None:
    assert frame(record, payload) == frame(record, payload)
    assert unframe(record, frame(record, payload)) == payload


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40))
def test_an_entry_belongs_to_one_key(record: bytes, other: bytes, payload: bytes) -> None:
    found = unframe(other, frame(record, payload))
    assert found == (payload if record == other else None)


@pytest.mark.parametrize("eighth", range(8))
def test_a_cut_entry_is_refused(eighth: int) -> None:
    blob = frame(KEY.record, PAYLOAD)
    assert unframe(KEY.record, blob[: len(blob) * eighth // 8]) is None


@settings(max_examples=1000)
@given(st.data())
def test_a_flipped_bit_is_refused(data: st.DataObject) -> None:
    blob = bytearray(frame(KEY.record, PAYLOAD))
    for bit in data.draw(st.sets(st.integers(0, 8 * len(blob) - 1), min_size=1, max_size=4)):
        blob[bit // 8] ^= 1 << bit % 8
    assert unframe(KEY.record, bytes(blob)) is None


# The cache at work


def test_round_trip_between_two_caches(folder: Path) -> None:
    first = Cache(folder)
    assert first.get(KEY) is None
    first.put(KEY, PAYLOAD)
    second = Cache(folder)
    assert second.get(KEY) == PAYLOAD
    assert second.get(OTHER) is None
    assert (second.counters.hits, second.counters.misses, second.counters.made) == (1, 1, 0)


def test_a_later_payload_replaces_the_earlier(folder: Path) -> None:
    cache = Cache(folder)
    cache.put(KEY, b"old")
    cache.put(KEY, b"")
    assert Cache(folder).get(KEY) == b""


def test_get_or_make_makes_once(folder: Path) -> None:
    cache = Cache(folder)
    assert cache.get_or_make(KEY, lambda: PAYLOAD) == PAYLOAD
    assert cache.get_or_make(KEY, fail) == PAYLOAD
    assert (cache.counters.hits, cache.counters.misses, cache.counters.made) == (1, 1, 1)
    assert sorted(os.listdir(folder / FORMAT)) == [DATABASE, "write.lock"]


def test_what_make_raises_passes_and_the_lock_is_free(folder: Path) -> None:
    cache = Cache(folder, lock_timeout=0.0)
    with pytest.raises(AssertionError, match="made although"):
        cache.get_or_make(KEY, fail)
    assert cache.get_or_make(KEY, lambda: PAYLOAD) == PAYLOAD


def test_make_may_use_the_cache_for_another_key(folder: Path) -> None:
    cache = Cache(folder, lock_timeout=0.0)
    assert cache.get_or_make(KEY, lambda: cache.get_or_make(OTHER, lambda: b"inner") + b"!") == b"inner!"


def test_off_keeps_nothing(folder: Path) -> None:
    cache = Cache(folder, "off")
    cache.put(KEY, PAYLOAD)
    assert cache.get(KEY) is None
    assert cache.get_or_make(KEY, lambda: b"made") == b"made"
    assert not folder.exists()


def test_read_only_mode_writes_to_memory_alone(folder: Path) -> None:
    Cache(folder).put(KEY, PAYLOAD)
    before = database(folder).read_bytes()
    cache = Cache(folder, "ro")
    assert cache.get_or_make(KEY, fail) == PAYLOAD
    assert cache.get_or_make(OTHER, lambda: b"new") == b"new"
    assert cache.get_or_make(OTHER, fail) == b"new"
    assert database(folder).read_bytes() == before


def test_read_only_mode_without_a_cache_warns_once(folder: Path) -> None:
    cache = Cache(folder, "ro")
    with pytest.warns(CacheWarning, match="nothing in it to read") as caught:
        found = [cache.get(KEY), cache.get(OTHER)]
    assert found == [None, None]
    assert len(caught) == 1
    assert not folder.exists()


def test_the_size_limit_holds_and_the_oldest_go(folder: Path) -> None:
    limit = 2**19
    cache = Cache(folder, size_limit=limit)
    keys = [CacheKey((("number", str(i)),)) for i in range(64)]
    for key in keys:
        cache.put(key, key.digest.encode() * 256)
    assert sum(path.stat().st_size for path in (folder / FORMAT).iterdir()) <= 1.1 * limit
    assert cache.get(keys[0]) is None
    assert cache.get(keys[-1]) == keys[-1].digest.encode() * 256


def test_a_cache_removed_in_between_is_made_again(folder: Path) -> None:
    cache = Cache(folder)
    cache.put(KEY, PAYLOAD)
    shutil.rmtree(folder)
    assert cache.get(KEY) is None
    cache.put(KEY, PAYLOAD)
    assert Cache(folder).get(KEY) == PAYLOAD


# Damage


@pytest.mark.parametrize("eighth", range(8))
def test_a_cut_entry_on_disk_is_a_miss_with_one_warning(folder: Path, eighth: int) -> None:
    Cache(folder).put(KEY, PAYLOAD)
    blob = frame(KEY.record, PAYLOAD)
    overwrite(folder, blob[: len(blob) * eighth // 8])
    cache = Cache(folder)
    with pytest.warns(CacheWarning, match="damaged") as caught:
        assert cache.get_or_make(KEY, lambda: b"again") == b"again"
    assert len(caught) == 1
    assert Cache(folder).get(KEY) == b"again"


def test_entries_swapped_on_disk_are_misses(folder: Path) -> None:
    cache = Cache(folder)
    cache.put(KEY, b"one")
    cache.put(OTHER, b"two")
    overwrite(folder, frame(KEY.record, b"one"))
    with pytest.warns(CacheWarning, match="damaged"):
        assert cache.get(OTHER) is None
    assert cache.get(KEY) == b"one"


@pytest.mark.parametrize("content", [b"garbage " * 1000, b"SQLite format 3\0" + bytes(5000)])
def test_a_file_that_is_no_database_is_replaced(folder: Path, content: bytes) -> None:
    Cache(folder).put(KEY, PAYLOAD)
    database(folder).write_bytes(content)
    cache = Cache(folder)
    with pytest.warns(CacheWarning, match="damaged") as caught:
        assert cache.get_or_make(KEY, lambda: b"again") == b"again"
    assert len(caught) == 1
    assert Cache(folder).get(KEY) == b"again"


def test_a_database_of_another_shape_degrades_to_memory(folder: Path) -> None:
    (folder / FORMAT).mkdir(parents=True, mode=0o700)
    folder.chmod(0o700)  # mkdir gave it the default of a parent
    with closing(sqlite3.connect(database(folder))) as connection:
        connection.execute("CREATE TABLE Cache (something TEXT)")
    database(folder).chmod(0o600)
    degrades_to_memory(folder, "goes on without")


@settings(max_examples=60, deadline=None)
@given(st.sets(st.integers(0, 2**30), min_size=1, max_size=6))
def test_bits_flipped_in_the_database_never_give_a_wrong_payload(bits: set[int]) -> None:
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore", CacheWarning)
        folder = Path(name) / "cache"
        Cache(folder).put(KEY, PAYLOAD)
        content = bytearray(database(folder).read_bytes())
        for bit in bits:
            content[bit // 8 % len(content)] ^= 1 << bit % 8
        database(folder).write_bytes(content)
        assert Cache(folder).get(KEY) in (None, PAYLOAD)
        assert Cache(folder).get_or_make(KEY, lambda: PAYLOAD) == PAYLOAD
