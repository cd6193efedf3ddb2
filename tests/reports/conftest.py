"""Synthetic runs, built once; a test that damages one works on a copy."""

import shutil

import pytest

from tests.reports import synthetic_run


@pytest.fixture(scope="session")
def stored_runs(tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / "nightly"
    (store / "empty").mkdir(parents=True)
    return {
        "valid": synthetic_run.build(store / "valid", rate=60),
        "invalid": synthetic_run.build(store / "invalid", lossy=True, rate=60),
        "unknown": synthetic_run.build(store / "unknown", rate=60, verdict="unknown"),
        "empty": store / "empty",
    }


@pytest.fixture
def copy_of(stored_runs, tmp_path):
    """Return a function that copies a stored run to where it may be spoilt."""

    def copy(name):
        return shutil.copytree(stored_runs[name], tmp_path / name)

    return copy
