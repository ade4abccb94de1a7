"""Hashes of large files are remembered only for as long as the file is the same."""

import json
import os
import time

from ctxviz.models.hashing import HashMemo, sha256_of


class TestHashes:
    def test_a_file_is_read_again_only_when_it_changed(self, tmp_path, monkeypatch):
        memo, file = HashMemo(tmp_path / "hashes.json"), tmp_path / "file"
        file.write_bytes(b"one")
        digest = memo.sha256(file)
        assert digest == sha256_of(file)
        read = []
        monkeypatch.setattr(
            "ctxviz.models.hashing.sha256_of", lambda f, _progress: read.append(f) or sha256_of(f)
        )
        assert memo.sha256(file) == digest
        assert read == []
        file.write_bytes(b"two")
        os.utime(file, ns=(time.time_ns() + 10**9,) * 2)
        assert memo.sha256(file) == sha256_of(file) != digest
        assert read == [file]

    def test_entries_of_vanished_files_go(self, tmp_path):
        memo = HashMemo(tmp_path / "hashes.json")
        for name in ("a", "b"):
            (tmp_path / name).write_bytes(b"x")
            memo.sha256(tmp_path / name)
        (tmp_path / "a").unlink()
        (tmp_path / "c").write_bytes(b"x")
        memo.sha256(tmp_path / "c")
        assert json.loads((tmp_path / "hashes.json").read_text()).keys() == {
            str(tmp_path / "b"),
            str(tmp_path / "c"),
        }

    def test_progress_is_a_fraction(self, tmp_path):
        (tmp_path / "file").write_bytes(bytes(9 << 20))
        fractions = []
        sha256_of(tmp_path / "file", fractions.append)
        assert fractions == sorted(fractions)
        assert fractions[-1] == 1.0
