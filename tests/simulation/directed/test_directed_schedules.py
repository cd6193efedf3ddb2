from pathlib import Path

import pytest

from simulation import directed
from simulation.directed import files

PATHS = list(files.DIRECTED_SCHEDULES.files().values())


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_flaw_is_found_by_its_schedule(path: Path) -> None:
    assert directed.play_schedule(path, flawed=True).failed


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_correct_build_passes_the_same_schedule(path: Path) -> None:
    assert directed.play_schedule(path, flawed=False).findings == ()
