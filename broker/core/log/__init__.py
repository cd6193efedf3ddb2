"""A replica's log on disk: segments of record batches, leader epochs, producer state, and recovery."""

from broker.core.log.epoch_cache import EpochCache
from broker.core.log.errors import AppendError, CorruptBatch, CorruptLog, EpochOutOfRange, OffsetMismatch
from broker.core.log.log import Appended, Log, LogConfig
from broker.core.log.producer_state import ProducerStates, Verdict
from broker.core.log.recovery import Recovery
from broker.core.log.truncation import truncation_offset

__all__ = [
    "AppendError",
    "Appended",
    "CorruptBatch",
    "CorruptLog",
    "EpochCache",
    "EpochOutOfRange",
    "Log",
    "LogConfig",
    "OffsetMismatch",
    "ProducerStates",
    "Recovery",
    "Verdict",
    "truncation_offset",
]
