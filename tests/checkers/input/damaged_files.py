"""Small histories of other tools, and random damage to them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

KAFKA = "".join(
    json.dumps(operation) + "\n"
    for operation in (
        {"process": 0, "type": "invoke", "f": "send", "value": [["send", "x", None, "a"], ["send", "x", None, "b"]]},
        {"process": 0, "type": "ok", "f": "send", "value": [["send", "x", 0, "a"], ["send", "x", 1, "b"]]},
        {"process": 1, "type": "invoke", "f": "poll", "value": [["poll", None]]},
        {"process": 1, "type": "ok", "f": "poll", "value": [["poll", [["x", [[0, "a"], [1, "b"]]]]]]},
        {"process": 1, "type": "info", "f": "subscribe", "value": ["x", "y"], "rebalance-log": [{"keys": ["x"]}]},
    )
)
REGISTER = """\
{:process 0, :type :invoke, :f :cas, :value [0 2]}
{:process 1, :type :invoke, :f :read, :value nil}
{:process 0, :type :ok, :f :cas, :value [0 2]}
{:process 1, :type :ok, :f :read, :value 2}
"""
LOG = "INFO  jepsen.util - 0\t:invoke\t:write\t3\nINFO  jepsen.util - 0\t:ok\t:write\t3\n"
KEY_VALUE = (
    '{:process 0, :type :invoke, :f :append, :key "a", :value "x"}\n{:process 0, :type :ok, :f :append, :key "a"}\n'
)
SEEDS = [text.encode() for text in (KAFKA, REGISTER, LOG, KEY_VALUE)]
PIECES = [b"", b"{", b"}", b"[", b"]", b'"', b"\\", b"\n", b"\t", b":", b"nil", b"null", b"-1", b"1e999", b"9" * 30]
PIECES += [
    b"#{",
    b"#_",
    b";",
    b"\xff\x00",
    b"true",
    b":send",
    b'"send"',
    b"[[[[[",
    b":type :ok",
    b'"type": "ok"',
    b"NaN",
]


def mutate(content: bytes, pick: Callable[[Sequence[bytes]], bytes], number: Callable[[int, int], int]) -> bytes:
    """Cut, double or overwrite a history at a few positions. `number` is one between two, both included."""
    for _ in range(number(1, 4)):
        begin = number(0, len(content))
        end = number(begin, min(len(content), begin + 40))
        content = content[:begin] + pick([*PIECES, content[begin:end] * 2]) + content[end:]
    return content
