"""Images for tests, made of nothing but what this machine has."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def shell() -> Mapping[str, Path]:
    """A shell that needs the C library alone, for an image that has one."""
    found = shutil.which("dash") or shutil.which("sh")
    assert found is not None
    return {"usr/bin/sh": Path(os.path.realpath(found))}


@contextmanager
def image_on(client: Any, base: str, files: Mapping[str, Path], name: str) -> Iterator[str]:
    """An image with these files besides, by their paths in there, until the end of the block."""
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        recipe = f"FROM {base}\nCOPY files /\n".encode()
        member = tarfile.TarInfo("Dockerfile")
        member.size = len(recipe)
        tar.addfile(member, io.BytesIO(recipe))
        for inside, path in files.items():
            tar.add(path, arcname=f"files/{inside}")
    context.seek(0)
    client.images.build(fileobj=context, custom_context=True, tag=name, rm=True)
    try:
        yield name
    finally:
        client.images.remove(name, force=True)
