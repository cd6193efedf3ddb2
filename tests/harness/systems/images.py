"""Builds images for tests from files of this machine alone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.environments.docker.image import build


def shell() -> Mapping[str, Path]:
    """A shell that needs the C library alone, for an image that has one."""
    found = shutil.which("dash") or shutil.which("sh")
    assert found is not None
    return {"usr/bin/sh": Path(os.path.realpath(found))}


@contextmanager
def image_on(client: Any, base: str, files: Mapping[str, Path], name: str) -> Iterator[str]:
    """An image with these files besides, by their paths in there, until the end of the block."""
    context = ((f"files/{inside}", path) for inside, path in files.items())
    build(client, name, f"FROM {base}\nCOPY files /\n", context)
    try:
        yield name
    finally:
        client.images.remove(name, force=True)
