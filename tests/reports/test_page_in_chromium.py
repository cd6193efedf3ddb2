"""The page of a real run, of a simulated one and of a hostile one, at widths from a phone's, light, dark and printed.

axe-core looks for what hinders readers, too: the copy in the package axe-core-python, or the file `axe.min.js` that the
environment variable HARROW_AXE names, which may be newer.
"""

import json
import os
import tempfile
from importlib.resources import files
from pathlib import Path

import pytest

from history.reader import read_table
from reports import render
from simulation.directed.files import DIRECTED_SCHEDULES
from simulation.runs.stored import store_schedule_run
from tests.reports import synthetic_run
from tests.reports.browser import browsing, chromium

pytestmark = pytest.mark.slow

PAGES = ("real", "simulated", "hostile")
WIDTHS = (400, 800, 1280)
PAPER = 720
"""The width of a sheet of A4 without its margins."""
READABLE = 4.5
"""The least contrast of text (WCAG 2, level AA)."""
HOSTILE = (
    "</script><script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\">\x1b[31m\u202eevil"
)

TOO_WIDE = """(() => [...document.querySelectorAll('main *')].filter((one) => {
  const box = one.getBoundingClientRect();
  if (!box.width || box.right <= innerWidth + 1 || one.closest('svg, details:not([open])')) return false;
  for (let part = one.parentElement; part; part = part.parentElement)
    if (getComputedStyle(part).overflowX !== 'visible') return false;
  return true;
}).map((one) => one.outerHTML.slice(0, 100)))()"""
"""What stands out of the page to the right, and cannot be scrolled to."""

PALE = """((least) => {
  const channels = (color) => (color.match(/[\\d.]+/g) ?? []).map(Number);
  const over = ([r, g, b, a = 1], below) => [r, g, b].map((one, n) => one * a + below[n] * (1 - a));
  const light = (rgb) => rgb.map((one) => one / 255)
    .map((one) => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
    .reduce((sum, one, n) => sum + one * [0.2126, 0.7152, 0.0722][n], 0);
  const ground = (one) => {
    if (!one) return [255, 255, 255];
    const own = getComputedStyle(one);
    if (own.backgroundImage !== 'none' || /^color/.test(own.backgroundColor)) return null;
    const below = ground(one.parentElement);
    return below && over(channels(own.backgroundColor), below);
  };
  const found = [];
  const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const holder = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !holder.checkVisibility() || holder.closest('svg, script')) continue;
    const below = ground(holder);
    if (!below || /^color/.test(getComputedStyle(holder).color)) continue;
    const own = light(over(channels(getComputedStyle(holder).color), below));
    const [dark, bright] = [own, light(below)].sort((a, b) => a - b);
    if ((bright + 0.05) / (dark + 0.05) < least) found.push(texts.currentNode.data.trim().slice(0, 60));
  }
  return found;
})(%s)"""
"""Texts on a plain ground whose contrast is less than that."""

NAMELESS = """[...document.querySelectorAll('button, select, input, summary, a[href], [tabindex="0"]')].filter((one) =>
  one.checkVisibility() && !one.textContent.trim() && !one.ariaLabel && !one.labels?.length
  && !one.getAttribute('aria-labelledby') && !one.title && !one.closest('svg'))
  .map((one) => one.outerHTML.slice(0, 100))"""
"""What can be reached by keys and says nothing of itself."""

DEAD_LINKS = """[...document.querySelectorAll("a[href^='#']")].filter((link) => {
  if (!link.closest('details:not([open])')) link.click();
  const target = document.getElementById(link.getAttribute('href').slice(1));
  return !target || !(link.closest('details:not([open])') || target.checkVisibility());
}).map((link) => link.outerHTML)"""
"""Links that lead nowhere, or into a part that stays folded."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    real = synthetic_run.build(folder / "real", lossy=True, rate=60)
    hostile = synthetic_run.build(folder / "hostile", lossy=True, rate=60)
    for table, columns in {
        "anomalies": ("topic", "explanation", "evidence"),
        "faults": ("kind", "parameters", "evidence"),
        "operations": ("client", "error"),
        "sends": ("topic",),
        "reads": ("topic",),
        "logs": ("topic",),
        "cluster": ("topic",),
        "runs": ("name", "system"),
    }.items():
        rows = [{**row, **dict.fromkeys(columns, HOSTILE)} for row in read_table(hostile, table).to_pylist()]
        synthetic_run.write_table(hostile, table, rows)
    (hostile / "nodes" / "1" / "node.log").write_text(HOSTILE + "\n")
    (hostile / "spec.json").write_text(json.dumps({"name": HOSTILE, "flaws": [HOSTILE], "seed": HOSTILE}))
    simulated = folder / "simulated"
    simulated.mkdir()
    store_schedule_run(simulated, DIRECTED_SCHEDULES.files()["unclean-election"], flawed=True)
    return {"real": render(real), "simulated": render(simulated), "hostile": render(hostile)}


@pytest.fixture(scope="module")
def browser():
    if chromium() is None:
        pytest.skip("needs chromium to show the page")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile, browsing(Path(profile)) as browser:
        yield browser


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_can_be_read_at_every_width(browser, pages, name, width, dark):
    browser.open(pages[name], width, 800, dark=dark)
    assert browser.requests == [pages[name].as_uri()]
    assert browser.errors == []
    assert "pwned" not in browser.run("document.title").split(":")[0]
    assert browser.run("document.images.length") == 0
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run(TOO_WIDE) == []
    assert browser.run(PALE % READABLE) == []
    assert browser.run(NAMELESS) == []
    assert browser.run(DEAD_LINKS) == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_on_a_page(browser, pages, name, width, dark):
    packaged = files("axe_core_python") / "axe.min.js"
    axe = Path(os.environ.get("HARROW_AXE", str(packaged))).read_text(encoding="utf-8")
    browser.open(pages[name], width, 800, dark=dark)
    browser.run("document.querySelectorAll('details:not(.still)').forEach((part) => { part.open = true; })")
    browser.run(f"(0, eval)({json.dumps(axe)}), 1")
    found = browser.run(
        "axe.run().then((all) => all.violations.map((one) => [one.id, one.nodes[0].html.slice(0, 100)]))"
    )
    assert found == []


@pytest.mark.parametrize("width", WIDTHS)
def test_the_time_line_is_walked_and_zoomed_by_keys_at_every_width(browser, pages, width):
    browser.open(pages["real"], width, 800)
    label = "document.activeElement.getAttribute('aria-label')"
    bar = "document.querySelector('#workbench-chart .bar').getBoundingClientRect().width"
    browser.run("document.getElementById('workbench-chart').focus()")
    browser.press("n")
    first = browser.run(label)
    browser.press("n")
    assert browser.run(label) != first
    browser.press("p")
    assert browser.run(label) == first
    before = browser.run(bar)
    browser.press("+", "+")
    assert browser.run(bar) > before


def as_on_paper(browser, page):
    browser.open(page, PAPER, 1000)
    browser.emulate_print()
    browser.run("dispatchEvent(new Event('beforeprint'))")


@pytest.mark.parametrize("name", PAGES)
def test_on_paper_pictures_stand_for_what_a_browser_works_with(browser, pages, name):
    as_on_paper(browser, pages[name])
    assert browser.run(TOO_WIDE) == []
    assert browser.run("document.getElementById('workbench').offsetHeight") == 0
    assert browser.run("[...document.querySelectorAll('details.still svg')].every((one) => one.checkVisibility())")
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run("document.querySelectorAll('details.still[open]').length") == 0


def test_lists_of_hundreds_of_anomalies_are_not_printed(browser, pages, tmp_path):
    as_on_paper(browser, pages["real"])
    assert browser.run("[...document.querySelectorAll('table.rows')].length") > 0
    assert browser.run("[...document.querySelectorAll('.group table.rows')].every((one) => !one.checkVisibility())")
    browser.open(pages["real"])
    assert browser.printed(tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
