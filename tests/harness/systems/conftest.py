from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], Path]:
    """Write a definition to a file."""

    def write(text: str) -> Path:
        path = tmp_path / "system.toml"
        path.write_text(text)
        return path

    return write
