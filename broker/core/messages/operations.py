"""The operations that a client is authorized to do, as a bit mask: without access control all that a resource has.

Bit n stands for operation n of Kafka's AclOperation (KIP-430).
"""

from __future__ import annotations

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = (1 << number for number in range(3, 9))
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = (1 << number for number in range(9, 13))

NOT_ASKED = -(1 << 31)
"""The mask in an answer to a client that did not ask for it."""

OF_TOPIC = _READ | _WRITE | _CREATE | _DELETE | _ALTER | _DESCRIBE | _DESCRIBE_CONFIGS | _ALTER_CONFIGS
OF_GROUP = _READ | _DELETE | _DESCRIBE
"""Without Kafka's two for the settings of a group: groups have none here."""

OF_CLUSTER = _CREATE | _ALTER | _DESCRIBE | _CLUSTER_ACTION | _DESCRIBE_CONFIGS | _ALTER_CONFIGS | _IDEMPOTENT_WRITE
