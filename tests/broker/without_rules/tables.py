"""Tables of the command: neutral answers of functions, rules without an automatic way, mutants nobody can notice."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ANSWERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "RegistrationRules.to_fence": ("expired",),
        "ReassignmentRules.eligible_among": ("tuple(dict.fromkeys((*target, *before)))",),
        "ElectionRules.shrink": ("isr",),
        "_KeepLastMember.shrink": ("isr", "tuple(member for member in isr if member != gone)"),
        "ElectionRules.last_known": ("()",),
        "_LastLeaderKnown.last_known": ("()", "computed"),
        "ElectionRules.recovery_quorum": ("last_known_elr", "replicas"),
        "ElectionRules.quorum_on_request": ("tuple(range(100))",),
        "ElectionRules.eligible": ("((), ())", "(change.elr, change.last_known_elr)"),
        "HighWatermarkRules.candidate": ("leader_end",),
        "HighWatermarkRules.of_follower": ("reported", "log_start", "log_end"),
        "HighWatermarkRules.after_divergence": ("max(present, min(reported, log_end))",),
        "HighWatermarkRules.on_restart": ("present",),
        "HighWatermarkRules.on_becoming_leader": ("log_end",),
        "InsyncReplicaRules.maximal": ("frozenset(committed)", "frozenset(proposed or committed)"),
        "InsyncReplicaRules.ms_until_request": ("50",),
        "InsyncReplicaRules.after_answer": ("AfterAnswer.ADOPT", "AfterAnswer.ROLL_BACK"),
        "StorageRules.unfolded_bytes_max": ("1 << 62",),
        "StorageRules.initial_high_watermark": (
            "log_start",
            "log_end",
            "log_start if checkpointed is None else checkpointed",
        ),
        "TruncationRules.on_becoming_follower": ("high_watermark",),
        "TruncationRules.last_fetched_epoch": ("-1",),
        "TruncationRules.on_divergence": ("log_end", "end_offset"),
        "TruncationRules.highest_epoch": ("leader_epoch + 1", "leader_epoch - 1"),
        "TruncationRules.ms_until_cut": ("50",),
        "TruncationRules.when_out_of_range": ("high_watermark",),
        "QuorumRules.high_watermark": ("present", "max(voter_ends)"),
        "QuorumRules.end_that_counts": ("written",),
        "FetchRules.kept_in_session": ("part._replace(current_leader_epoch=-1)",),
        "FetchRules.deletion_bound": ("log_end",),
        "FetchRules.read_bound": ("log_end", "high_watermark"),
        **dict.fromkeys(("_start", "_cancel"), ("(ErrorCode.NONE, None)",)),
    }
)
"""What a function answers without its decision, as source; its parameters are the names. Without a row: by its type."""

_DISK = "a property of the disk, which is the simulator's: `simulation/engine/disk.py`"

NO_WAY: Mapping[str, str] = MappingProxyType(
    {
        "BL-10": "what follows from the other rules: no function of the broker makes it so",
        "PR-7": "an open question of the protocol: no function of the broker decides it",
        **dict.fromkeys(("ST-2", "ST-3", "ST-4", "ST-5"), _DISK),
        "ST-8": "the contract of the faults, which the simulator and the nemesis keep to",
    }
)
"""Rules that cannot be taken out automatically: why."""

EQUIVALENT: Mapping[str, str] = MappingProxyType(
    {
        "rules/requests.py FetchRules.check_epoch: boundary of given < local": "equal epochs have been answered before",
        "broker_node/isr_changes.py high_watermark_may_move: "
        "if replica.high_watermark < replica.log.end_offset: False": (
            "what follows only counts how often a high watermark is held back"
        ),
        "broker_node/isr_changes.py shrink_all: if replica.role is not Role.LEADER: False": (
            "who does not lead knows of no remote replica, so none lags"
        ),
        "broker_node/publishing.py _apply: if replica.pending_isr is not None: False": (
            "what follows only counts how a pending change is superseded"
        ),
        "broker_node/requests/fetching.py _record_follower: "
        "if entry is not None and _is_at_rest(broker, request, part, entry): False": (
            "a fetch at rest passes every check again, and is of an ISR member whose log end stays"
        ),
        "log/log.py Log.append_as_leader: if len(headers) == 1: False": (
            "a single batch is stamped the same among several, with one copy of it more"
        ),
        "rules/insync_replicas.py AlterPartitionRules.check_form: without and bool(members)": (
            "a set that includes the leader is not empty"
        ),
        "controller/partition_changes.py changed: without len(state.replicas) in min(min_isr, len(state.replicas))": (
            "an ISR smaller than min ISR with all replicas in it leaves nobody out who could be eligible"
        ),
        "controller/partition_changes.py _complete_reassignment: without len(target) in min(min_isr, len(target))": (
            "an ISR smaller than min ISR with all of the target in it is complete as it is"
        ),
        "controller/partition_changes.py without_replica: if new is None: False": (
            "a state that is marked as altered always has a next one"
        ),
        "controller/recovery.py _needed: if is_asked_for: False": (
            "the proactive strategy needs no answer in particular, as an operator does not"
        ),
        "rules/high_watermark.py HighWatermarkRules.candidate: if end == UNKNOWN: False": (
            "UNKNOWN is -1, the smallest of all ends, and comes out as the minimum"
        ),
        "rules/quorum.py QuorumRules.high_watermark: without and held != UNKNOWN": (
            "an epoch starts at 0 or later, and UNKNOWN is below"
        ),
        "rules/quorum.py QuorumRules.high_watermark: boundary of held > present": "the answer is the same if both are",
    }
)
"""Mutants that no test can notice, by name: why. A row whose mutant is noticed, or is no more, is reported."""
