"""Fuzzes a listener of a real cluster, and watches that the cluster goes on as if nothing were.

    python -m benchmarks.broker.fuzz --listener CLIENT|BROKER|CONTROLLER|all --duration 3600 --seed 7
    python -m benchmarks.broker.fuzz --replay FILE

Three brokers and three controllers start as processes. For the whole time frames go to the listener that no client
should send: well-formed ones with hostile values, changed, cut and invented bytes, compression bombs, requests whose
answers nobody reads, connections that say nothing (`drawing/steps.py` has all kinds). Beside it an ordinary producer
writes with acks=all. It is a failure if a node ends, if a node takes more than a second for the answer to a probe (of
which one goes to each listener each second), if it takes more than 150 MB of memory, if it counts an incident, or if an
acknowledged record cannot be read at the end. The time in which a process waits for a processor does not count, but is
shown.

Equal seeds draw equal frames. `spared.py` says which are left out, because their sender may validly do such damage.
What came before a failure is saved as a file that `--replay` sends again, to a fresh cluster. An interrupt ends the
fuzzing, and what was seen is told. Exit status: 0 if nothing failed, 1 if something did, 2 for a wrong command, 4 if
the cluster did not start.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.broker.fuzz import evidence, table
from benchmarks.broker.fuzz.session import Plan, run
from broker.shell.codec.apis import LISTENER_APIS
from tests.support.local_cluster import NodeFailedError

_REPLAY_S_MAX = 600.0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.broker.fuzz",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--listener", choices=(*LISTENER_APIS, "all"), default="all", help="all: one after the other")
    parser.add_argument("--duration", type=float, default=60.0, metavar="SECONDS", help="for each listener")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--replay", type=Path, metavar="FILE", help="send the steps of a saved file instead")
    parser.add_argument("--save", type=Path, default=Path("store/fuzz"), metavar="FOLDER", help="for what fails")
    options = parser.parse_args()
    if options.duration <= 0:
        parser.error(f"expected a duration of more than 0 s, found {options.duration:g}")
    plans = []
    if options.replay is not None:
        try:
            saved = evidence.load(options.replay)
        except (OSError, ValueError) as error:
            parser.error(str(error))
        plans.append(Plan(saved.listener, _REPLAY_S_MAX, saved.seed, options.save, replayed=saved.steps))
    else:
        listeners = tuple(LISTENER_APIS) if options.listener == "all" else (options.listener,)
        plans += [Plan(listener, options.duration, options.seed, options.save) for listener in listeners]
    failed = False
    for plan in plans:
        try:
            outcome = run(plan)
        except (NodeFailedError, TimeoutError) as error:
            print(f"the cluster did not start: {error}", file=sys.stderr)
            return 4
        except KeyboardInterrupt:
            print("interrupted while the cluster started or stopped", file=sys.stderr)
            return 4
        print("\n".join(table.lines(outcome)), flush=True)
        failed = failed or outcome.failed
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
