"""A page explains every rule and property of the protocol that it names, for a reader who has only the page."""

import json
import re
from pathlib import Path
from typing import ClassVar

import pytest

import simulation
from broker.core.rules.flaws import FLAWS
from history.protocol import FAILURE_ID, RULE_ID, failure_sentences, protocol_rules
from reports import render
from reports.rules import with_rules
from reports.text.configuration import contract_sentences
from tests.support.html_check import Page

PAGE = "<html><head><title>P-1</title></head><body><main>{}</main><script>const id = 'P-1';</script></body></html>"


def page_of_a_finding(directory, what):
    step = {"at_us": 700_000, "node_id": 100, "text": f"VIOLATION of {what}", "source": None}
    (directory / "story.json").write_text(json.dumps([step]))
    return Page(render(directory))


@pytest.mark.parametrize("rule", ["P-12", "P-10", "BL-10", "V-5", "ISR-E2", "B-52"])
def test_a_page_with_a_finding_shows_the_sentence_of_its_rule(tmp_path, rule):
    page = page_of_a_finding(tmp_path, f"{rule}: gone")
    assert page.dangling == []
    assert failure_sentences()[rule] in page.text
    assert f"rule-{rule}" in page.ids
    assert f'<a class="rule" href="#rule-{rule}"><title>' in page.source


def test_the_link_has_the_sentence_as_its_tooltip(stored_runs):
    page = Page(render(stored_runs["valid"]))
    links = [attributes for tag, attributes in page.elements if tag == "a" and attributes.get("class") == "rule"]
    assert {link["href"] for link in links} >= {"#rule-BL-10", "#rule-HW-6", "#rule-FE-8"}
    assert all(link["title"] == protocol_rules()[link["href"].removeprefix("#rule-")].statement for link in links)


def test_every_rule_that_a_page_names_is_listed_once(tmp_path):
    page = page_of_a_finding(tmp_path, "P-12, P-12 and HW-3: gone")
    listed = [attributes["id"] for tag, attributes in page.elements if tag == "dt" and "id" in attributes]
    assert len(listed) == len(set(listed))
    visible = " ".join(text for tag, text in page.texts if tag not in ("style", "script"))
    assert {f"rule-{rule}" for rule in RULE_ID.findall(visible)} == set(listed)


def test_what_is_no_rule_is_not_linked(tmp_path):
    page = page_of_a_finding(tmp_path, "P-99, KIP-98, B-99, UTF-8: gone")
    assert "rule-P-99" not in page.ids
    assert not [href for href in page.references if re.search("KIP|B-99|UTF|P-99", href)]


def test_a_page_that_names_no_rule_stays_as_it_is():
    page = PAGE.format("<p>no promise was broken</p>")
    assert with_rules(page) == page


def test_titles_scripts_attributes_and_links_stay_as_they_are():
    page = with_rules(PAGE.format('<p title="P-1"><a href="#x">P-2</a> P-3</p>'))
    assert "<title>P-1</title>" in page
    assert "const id = 'P-1'" in page
    assert '<p title="P-1"><a href="#x">P-2</a> <a class="rule" href="#rule-P-3"' in page
    assert re.findall(r'<dt id="rule-([^"]+)"', page) == ["P-3"]


@pytest.mark.parametrize("acks", [-1, 0, 1, None])
def test_every_rule_that_the_contract_names_exists(acks):
    class Settings:
        spec: ClassVar = {}

        def number(self, name):
            return acks if name == "acks" else 2

        def flag(self, _name):
            return True

        def text(self, _name):
            return "a system"

    named = {rule for sentence in contract_sentences(Settings()) for rule in RULE_ID.findall(sentence)}
    assert named
    assert named <= protocol_rules().keys()


def test_every_flaw_that_a_failure_names_has_the_sentence_of_the_catalogue():
    catalogue = {flaw.number: flaw.summary for flaw in FLAWS.values()}
    flaws = {name: sentence for name, sentence in failure_sentences().items() if name not in protocol_rules()}
    of_versions = {name: sentence for name, sentence in flaws.items() if name.startswith("B-")}
    assert of_versions == {name: catalogue[name] for name in of_versions}
    properties = Path(simulation.__file__).parent / "invariants" / "properties.py"
    assert set(re.findall(r"\bB-\d+", properties.read_text())) == set(of_versions)
    documented = (Path(__file__).parents[2] / "docs" / "reference" / "zookeeper.md").read_text(encoding="utf-8")
    assert {*flaws} - {*of_versions} <= {*FAILURE_ID.findall(documented)}


@pytest.mark.parametrize("name", ["P-12", "HW-3", "ISR-E2", "V-5", "P-R3", "B-52", "Z-04"])
def test_the_ids_of_failures_are_recognised(name):
    assert FAILURE_ID.findall(f"VIOLATION of {name}: gone") == [name]
