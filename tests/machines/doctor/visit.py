"""Runs on a reduced machine: asks doctor, carries out the remedy that it names, and asks again.

    python3 visit.py CONFIG.json REPORT.json

As root. The configuration is a `causes.Visit`; the report has what doctor said each time, as a list, and the remedies
that were carried out in between. Nothing of Harrow is imported: what is judged is what a new user would read and type.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

USER = "newuser"
HOME = f"/home/{USER}"
USER_ID = 4321
PATH = "/usr/local/bin:/usr/bin:/bin"
DOCTOR = ["/venv/bin/harrow", "doctor", "--json"]
REMEDIES_MAX = 2
TIMEOUT_S = 300


def main() -> None:
    """Prepare the machine, then alternate between doctor and its remedies."""
    config: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
    if subprocess.run(["id", USER], capture_output=True, check=False).returncode != 0:
        subprocess.run(["useradd", "--create-home", "--uid", str(USER_ID), "--shell", "/bin/sh", USER], check=True)
    for command in config["prepare"]:
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
        if done.returncode != 0:
            sys.exit(f"expected to prepare by {command}, found: {done.stdout}{done.stderr}")
    said = [ask(config)]
    carried_out: list[dict[str, object]] = []
    while len(carried_out) < REMEDIES_MAX:
        finding = about(said[-1], config["capability"])
        if finding["available"] or finding["remedy"] is None or not finding["remedy"]["command"]:
            break
        text = finding["remedy"]["text"]
        if config["instead"]:  # a remedy that runs Harrow another way: doctor shall be run that way
            before, after = config["instead"]
            said.append(read(shell(text.replace(before, after), config)))
            carried_out.append({"command": text, "status": 0})
            break
        done = shell(text, config)
        carried_out.append({"command": text, "status": done.returncode, "said": (done.stdout + done.stderr)[-2000:]})
        said.append(ask(config))
    Path(sys.argv[2]).write_text(json.dumps({"said": said, "carried_out": carried_out}))


def about(said: dict[str, Any], capability: str) -> dict[str, Any]:
    """What doctor said of one capability."""
    found: dict[str, Any] = next(one for one in said["capabilities"] if one["capability"] == capability)
    return found


def ask(config: dict[str, Any]) -> dict[str, Any]:
    """Run doctor as configured."""
    command = [*config["limited_by"], *DOCTOR, *config["arguments"]]
    if config["user"] != "root":
        denied = "deny" in Path("/proc/self/setgroups").read_text()  # to the root of a user namespace, as a rule
        groups = ["--keep-groups"] if denied else ["--init-groups"]
        command = ["setpriv", "--reuid", USER, "--regid", USER, *groups, *command]
    home = HOME if config["user"] != "root" else "/root"
    environment = {"HOME": home, "USER": config["user"], "PATH": PATH, **config["environment"]}
    done = subprocess.run(
        command,
        env=environment,
        cwd=config["directory"] or home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    return read(done)


def read(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Doctor's JSON, with its exit status."""
    try:
        said: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    except ValueError:
        sys.exit(f"expected JSON of doctor, found: {done.stdout}{done.stderr}")
    said["status"] = done.returncode
    said["errors"] = done.stderr
    return said


def shell(text: str, config: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Type a line at root's prompt."""
    return subprocess.run(
        ["sh", "-c", text],
        cwd=config["directory"] or HOME,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )


if __name__ == "__main__":
    main()
