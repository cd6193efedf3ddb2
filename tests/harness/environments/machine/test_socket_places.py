"""Control sockets lie where their paths are short enough for the system."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path

import pytest

from harness.environments.common.layout import OWN_BYTES, PATH_BYTES_MAX, place_for_sockets


def test_the_usual_place_is_taken_where_it_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/var/tmp")
    assert place_for_sockets() == Path("/var/tmp")


def test_a_path_that_is_too_long_is_avoided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 90)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    place = place_for_sockets()
    assert place != long
    with tempfile.TemporaryDirectory(dir=place) as directory, socket.socket(socket.AF_UNIX) as listener:
        path = str(Path(directory, "x")).ljust(len(str(place)) + OWN_BYTES, "x")
        listener.bind(path)
        assert len(path) <= PATH_BYTES_MAX
