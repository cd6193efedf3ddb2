"""Flaws in a leader's answers to fetches and queries, and in its follower state (§7, §16)."""

from __future__ import annotations

from broker.core.messages import UNKNOWN, FetchPartition
from broker.core.messages.errors import ErrorCode
from broker.core.rules.flaws.flaw import Flaw, Visibility
from broker.core.rules.high_watermark import HighWatermarkRules
from broker.core.rules.log import StorageRules
from broker.core.rules.requests import FetchRules


class _BelievePosition(FetchRules):
    def diverges(self, fetch_offset: int, last_fetched_epoch: int, epoch: int, end_offset: int) -> bool:
        """FE-6 removed."""
        return False

    def is_in_log(self, fetch_offset: int, log_start: int, log_end: int) -> bool:
        """FE-7 removed."""
        return True


class _CheckNoEpoch(FetchRules):
    def check_epoch(self, given: int, local: int) -> ErrorCode:
        """FE-2 removed."""
        return ErrorCode.NONE


class _CheckLaterEpochOnly(FetchRules):
    def check_epoch(self, given: int, local: int) -> ErrorCode:
        """FE-2 without FENCED_LEADER_EPOCH: a follower in an older epoch is served, and counted."""
        return super().check_epoch(given, local) if given > local else ErrorCode.NONE


class _ReadToLogEnd(FetchRules):
    def read_bound(self, by_follower: bool, high_watermark: int, log_end: int) -> int:
        """FE-8 without the high watermark."""
        return log_end


class _AlwaysCertain(HighWatermarkRules):
    def is_certain(self, high_watermark: int, leader_epoch_start: int) -> bool:
        """HW-9, LO-2 removed."""
        return True


class _ForgetEpochInSession(FetchRules):
    def kept_in_session(self, part: FetchPartition) -> FetchPartition:
        """FE-11 without the epoch: only a fetch that names the partition is checked."""
        return super().kept_in_session(part)._replace(current_leader_epoch=UNKNOWN)


class _CountDivergingFetch(FetchRules):
    def moves_follower_state(self, error: ErrorCode, diverging: bool) -> bool:
        """FE-6's "do not update" removed."""
        return error == ErrorCode.NONE


class _UnfoldAnything(StorageRules):
    def unfolded_bytes_max(self) -> int:
        """LO-6 removed: as many bytes as memory has."""
        return 1 << 40


class _LookIntoGzipOnly(StorageRules):
    def looks_into(self, codec: int) -> bool:
        """LO-5 for what the standard library unfolds; of other batches nothing but the header is known."""
        return codec in (0, 1)


FLAWS = (
    Flaw(
        name="believe-fetch-offset",
        number="B-04",
        summary="a leader takes any fetch offset for what the follower holds, even beyond its own log",
        properties=("P-2", "P-3"),
        source="by omission in the first designs",
        visible=Visibility.LATE,
        without=(_BelievePosition,),
    ),
    Flaw(
        name="leader-epoch-unchecked",
        number="B-15",
        summary="leader and follower of different epochs replicate as if they agreed",
        properties=("P-6", "P-2", "P-12"),
        source="KIP-320, KAFKA-6880",
        visible=Visibility.DIRECT,
        without=(_CheckNoEpoch,),
    ),
    Flaw(
        name="behind-follower-counts",
        number="B-16",
        summary="a leader counts the fetches of a follower that still follows it in an earlier epoch",
        properties=("P-6", "P-2", "P-12"),
        source="KIP-320, first draft",
        visible=Visibility.LATE,
        without=(_CheckLaterEpochOnly,),
    ),
    Flaw(
        name="read-above-high-watermark",
        number="B-29",
        summary="consumers read to the log end",
        properties=("P-11",),
        source="KAFKA-725",
        visible=Visibility.DIRECT,
        without=(_ReadToLogEnd,),
    ),
    Flaw(
        name="uncertain-end-offset",
        number="B-30",
        summary="a new leader reports its high watermark before it has reached the start of its epoch",
        properties=("P-9",),
        source="KIP-207, KAFKA-2334",
        visible=Visibility.DIRECT,
        without=(_AlwaysCertain,),
    ),
    Flaw(
        name="session-forgets-epoch",
        number="B-35",
        summary="a fetch session does not keep the leader epoch, so that its later fetches are unchecked",
        properties=("P-3",),
        source="KAFKA-9338",
        visible=Visibility.WHITE_BOX,
        without=(_ForgetEpochInSession,),
    ),
    Flaw(
        name="diverging-fetch-counts",
        number="B-44",
        summary="a fetch whose log diverges still moves what the leader knows of the follower",
        properties=("P-2", "P-10"),
        source="KAFKA-13141",
        visible=Visibility.LATE,
        without=(_CountDivergingFetch,),
    ),
    Flaw(
        name="lookup-unfolds-anything",
        number="B-89",
        summary="a lookup by time unfolds a batch however large it gets, so that a small one costs gigabytes",
        properties=("P-26",),
        source="this broker, under a fuzzer",
        visible=Visibility.DIRECT,
        without=(_UnfoldAnything,),
    ),
    Flaw(
        name="lookup-blind-to-codecs",
        number="B-90",
        summary="a lookup by time does not look into batches of snappy, lz4 or zstd",
        properties=("P-26",),
        source="this broker, beside Apache Kafka",
        visible=Visibility.DIRECT,
        without=(_LookIntoGzipOnly,),
    ),
)
