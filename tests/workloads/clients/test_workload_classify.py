import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import errors

from workloads.clients.classify import (
    REFUSED_BEFORE_APPEND,
    Local,
    classify_failed_send,
    combine,
    may_have_appended,
)

DEFINITE = [
    errors.NotEnoughReplicasError,
    errors.OutOfOrderSequenceNumberError,
    errors.InvalidProducerEpochError,
    errors.UnknownProducerIdError,
    errors.InvalidRequiredAcksError,
    errors.InvalidTopicError,
    errors.InvalidRecordError,
    errors.InvalidTimestampError,
    errors.InvalidRequestError,
    errors.CorruptRecordError,
    errors.MessageSizeTooLargeError,
    errors.RecordListTooLargeError,
    errors.TopicAuthorizationFailedError,
]
IN_DOUBT = [
    errors.NotLeaderForPartitionError,
    errors.NotEnoughReplicasAfterAppendError,
    errors.RequestTimedOutError,
    errors.UnknownTopicOrPartitionError,
    errors.UnknownTopicIdError,
    errors.LeaderNotAvailableError,
    errors.KafkaStorageError,
    errors.DuplicateSequenceNumberError,
    errors.FencedLeaderEpochError,
    errors.NetworkExceptionError,
    errors.UnknownError,
]
ENDS = st.one_of(st.integers(-1, 130), st.sampled_from(Local))


@pytest.mark.parametrize("error", DEFINITE, ids=lambda error: error.__name__)
def test_a_refusal_before_the_append_is_a_failure(error):
    assert classify_failed_send([error.errno]) == "fail"


@pytest.mark.parametrize("error", IN_DOUBT, ids=lambda error: error.__name__)
def test_an_error_that_may_follow_an_append_is_unknown(error):
    assert classify_failed_send([error.errno]) == "info"


def test_what_never_left_the_client_is_a_failure():
    assert classify_failed_send([]) == "fail"
    assert classify_failed_send([Local.NOT_SENT, Local.NOT_SENT]) == "fail"


def test_what_was_never_answered_is_unknown():
    assert classify_failed_send([Local.NO_ANSWER]) == "info"


@given(st.lists(ENDS), st.lists(ENDS))
def test_a_definite_last_error_does_not_hide_an_attempt_in_doubt(before, after):
    attempts = [*before, Local.NO_ANSWER, *after, errors.NotEnoughReplicasError.errno]
    assert classify_failed_send(attempts) == "info"


@given(st.lists(ENDS))
def test_a_send_failed_only_if_every_attempt_did(attempts):
    failed = all(end is Local.NOT_SENT or end in REFUSED_BEFORE_APPEND for end in attempts)
    assert classify_failed_send(attempts) == ("fail" if failed else "info")


def test_codes_of_the_future_are_in_doubt():
    assert may_have_appended(9999)


@pytest.mark.parametrize(
    ("records", "operation"),
    [
        (["ok", "ok"], "ok"),
        (["fail", "fail"], "fail"),
        (["info"], "info"),
        (["ok", "fail"], "info"),
        (["ok", "info"], "info"),
        (["fail", "info"], "info"),
    ],
)
def test_an_operation_is_ok_or_failed_only_as_a_whole(records, operation):
    assert combine(records) == operation
