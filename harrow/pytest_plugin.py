"""The pytest plugin: `@pytest.mark.harrow(seeds=500)` runs a test on simulated clusters, one for each seed.

It imports nothing of Harrow's before such a test runs, so that it costs other test suites nothing.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from harrow.simulating import Simulation

MARK: Final = "harrow"
SEEDS_MAX: Final = 100_000
_RANGE: Final = re.compile(r"(\d+):(\d+)")
_EXPECTED: Final = 'a number of seeds, a range like "1:500", or a list of seeds'


class ViolationFound(AssertionError):
    """A simulated cluster broke a property. The message has what was found, the seed, and the commands."""


class Cluster:
    """The simulated cluster of one seed: the fixture `cluster`."""

    def __init__(self, seed: int, settings: Mapping[str, object]) -> None:
        self.seed = seed
        self.settings = dict(settings)
        self.last: Simulation | None = None
        """The last simulation."""

    def run(self, **settings: object) -> Simulation:
        """Simulate as `harrow.simulate` does, and fail the test with the first violation, if there is one.

        `settings` are added to those of the mark.
        """
        __tracebackhide__ = True
        result = self.simulate(**settings)
        if result.findings:
            raise ViolationFound(_violations(result))
        return result

    def simulate(self, **settings: object) -> Simulation:
        """The same without judging: the test looks at the findings itself."""
        __tracebackhide__ = True
        from harrow.simulating import simulate

        try:
            self.last = simulate(self.seed, **{**self.settings, **settings})
        except ValueError as error:
            pytest.fail(f"harrow: {error}", pytrace=False)
        return self.last


def _violations(result: Simulation) -> str:
    others = len(result.findings) - 1
    more = f" (and {others} more)" if others else ""
    return f"seed {result.seed}: {result.findings[0]}{more}\n{_commands(result)}"


def _commands(result: Simulation) -> str:
    return f"again:   {result.command}\nexplain: {result.explain_command}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--harrow-seeds`."""
    parser.getgroup("harrow").addoption(
        "--harrow-seeds", metavar="SEEDS", help=f"Seeds for all tests marked harrow instead of their own: {_EXPECTED}."
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark, and check the option."""
    config.addinivalue_line(
        "markers", f"{MARK}(seeds, **settings): run on simulated clusters: {_EXPECTED}; settings of harrow.simulate"
    )
    given = config.getoption("--harrow-seeds")
    if given is not None and seeds_of(given) is None:
        raise pytest.UsageError(f"--harrow-seeds: expected {_EXPECTED}, found {given!r}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each seed."""
    mark = metafunc.definition.get_closest_marker(MARK)
    if mark is None:
        return
    name = metafunc.definition.name
    if "cluster" not in metafunc.fixturenames:
        raise pytest.Collector.CollectError(f"{name}: expected a test with the fixture `cluster`, found none")
    given = metafunc.config.getoption("--harrow-seeds") or mark.kwargs.get("seeds", 1)
    seeds = None if mark.args else seeds_of(given)
    if seeds is None:
        found = f"@pytest.mark.harrow({mark.args[0]!r})" if mark.args else repr(given)
        raise pytest.Collector.CollectError(f"{name}: expected seeds={_EXPECTED}, found {found}")
    settings = {key: value for key, value in mark.kwargs.items() if key != "seeds"}
    clusters = [(seed, settings) for seed in seeds]
    metafunc.parametrize("cluster", clusters, indirect=True, ids=[f"seed-{seed}" for seed in seeds])


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Generator[Cluster]:
    """The simulated cluster of this test's seed; the test calls its `run`."""
    if not hasattr(request, "param"):
        pytest.fail("expected a test marked with @pytest.mark.harrow(seeds=…), found no mark", pytrace=False)
    simulated = Cluster(*request.param)
    yield simulated
    report = request.node.stash.get(_CALLED, None)
    if simulated.last is None and report is not None and report.passed:
        pytest.fail("expected the test to call cluster.run() or cluster.simulate(), found neither", pytrace=False)


_CALLED: Final = pytest.StashKey[pytest.TestReport]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the seed and the commands to a failure of any kind."""
    report = yield
    if report.when == "call":
        item.stash[_CALLED] = report
        simulated = getattr(item, "funcargs", {}).get("cluster")
        if report.failed and isinstance(simulated, Cluster) and simulated.last is not None:
            report.sections.append((f"harrow, seed {simulated.seed}", _commands(simulated.last)))
    return report


def seeds_of(given: object) -> Sequence[int] | None:
    """The seeds that a mark or an option names; None if it is neither a number, a range nor a list."""
    if isinstance(given, str):
        found = _RANGE.fullmatch(given)
        if found is not None:
            seeds: Sequence[int] = range(int(found[1]), int(found[2]) + 1)
            return seeds if 0 < len(seeds) <= SEEDS_MAX else None
        given = int(given) if given.isascii() and given.isdecimal() else None
    if isinstance(given, int) and not isinstance(given, bool):
        return range(1, given + 1) if 0 < given <= SEEDS_MAX else None
    if isinstance(given, list | tuple | range) and given and all(type(seed) is int and seed >= 0 for seed in given):
        return list(given)
    return None
