"""Elects the quorum's leader: pre-votes, votes, resignation (§18.2 … §18.4)."""

from __future__ import annotations

from broker.core.messages import (
    NO_LEADER,
    UNKNOWN,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    VoteRequest,
    VoteResponse,
)
from broker.core.messages.errors import ErrorCode
from broker.core.ports.marks import sometimes
from broker.core.quorum.state import FetchProgress, Quorum, QuorumRole, read_stored
from broker.core.records import encode_batch

BOOTED_NEW = sometimes("quorum boot: nothing usable is stored (QU-1)")
BOOTED_RESIGNED = sometimes("quorum boot: it led the stored epoch, and does no more (QU-1)")
BOOTED_FOLLOWER = sometimes("quorum boot: follows the stored leader (QU-1)")
BOOTED_UNATTACHED = sometimes("quorum boot: knows no leader (QU-1)")
PROSPECTIVE = sometimes("quorum: asks for pre-votes (QU-6)")
CANDIDATE = sometimes("quorum: asks for votes (QU-7)")
LEADER = sometimes("quorum: leads (QU-10)")
FOLLOWER = sometimes("quorum: follows (QU-5)")
RESIGNED_WITHOUT_MAJORITY = sometimes("quorum: resigns, no majority fetches (QU-13)")
RESIGNED_IN_ORDER = sometimes("quorum: resigns in good order (QU-14)")
BACK_TO_LEADER = sometimes("quorum: lost the pre-votes, follows the known leader on (QU-6)")
LOST_ROUND = sometimes("quorum: lost a round of votes or pre-votes and backs off (QU-7)")
PRE_VOTE_GRANTED = sometimes("quorum: pre-vote granted (QU-9)")
PRE_VOTE_REFUSED_LEADER = sometimes("quorum: pre-vote refused, the leader can be heard (QU-9)")
PRE_VOTE_REFUSED_LOG = sometimes("quorum: pre-vote refused, the log is behind (QU-9)")
VOTE_GRANTED = sometimes("quorum: vote granted (QU-8)")
VOTE_REFUSED_LOG = sometimes("quorum: vote refused, the log is behind (QU-8)")
VOTE_REFUSED_TAKEN = sometimes("quorum: vote refused, it is given or the leader is known (QU-8)")
VOTE_OF_OLD_EPOCH = sometimes("quorum: vote refused, the epoch is old (QU-3)")
HIGHER_EPOCH_SEEN = sometimes("quorum: a vote request brings a higher epoch (QU-3)")
LEADER_LEARNT = sometimes("quorum: the leader is learnt from an answer (QU-4)")
OLD_EPOCH_ANNOUNCED = sometimes("quorum: an old epoch is announced (QU-3)")
HANDED_OVER_FIRST = sometimes("quorum: the leader goes, and this voter is to be the next (QU-14)")
HANDED_OVER_LATER = sometimes("quorum: the leader goes, and another voter comes first (QU-14)")

ELECTION = "quorum-election"
CHECK = "quorum-check"
VOTE = "vote"
BEGIN_EPOCH = "begin-quorum-epoch"
END_EPOCH = "end-quorum-epoch"
CHANNEL = "quorum"

EPOCHS_AHEAD_MAX = 1 << 24
"""Elections that a voter may have missed; more at once are no epoch that a quorum has reached."""
_DOUBLINGS_MAX = 20
"""Of the wait after a lost round: to 14 hours, if `controller.quorum.election.backoff.max.ms` allows."""


def boot(quorum: Quorum) -> None:
    """QU-1: continue from the stored state."""
    stored = read_stored(quorum.files)
    log_epoch = max(quorum.last_epoch_and_end()[0], 0)
    if stored is None or stored[0] < log_epoch:
        quorum.runtime.mark(BOOTED_NEW)
        quorum.epoch = log_epoch
        become_unattached(quorum, log_epoch)
    else:
        quorum.epoch, quorum.leader, quorum.voted_for = stored
        if quorum.leader == quorum.node_id and not quorum.rules.may_act_in_stored_epoch(was_leader=True):
            quorum.runtime.mark(BOOTED_RESIGNED)
            quorum.leader = NO_LEADER
            _become(quorum, QuorumRole.RESIGNED)
            _set_election_timer(quorum)
        elif quorum.leader == quorum.node_id:
            become_leader(quorum)
        elif quorum.leader != NO_LEADER:
            quorum.runtime.mark(BOOTED_FOLLOWER)
            become_follower(quorum, quorum.epoch, quorum.leader)
        else:
            quorum.runtime.mark(BOOTED_UNATTACHED)
            _become(quorum, QuorumRole.UNATTACHED)
            _set_election_timer(quorum)
    if not quorum.others and quorum.role is not QuorumRole.LEADER:
        become_candidate(quorum)


# --- transitions -----------------------------------------------------------------------------------------------------


def _become(quorum: Quorum, role: QuorumRole) -> None:
    if role is not quorum.role:
        quorum.runtime.log("info", f"quorum: {role.value} in epoch {quorum.epoch}")
    quorum.role = role
    quorum.granted = {}


def _set_election_timer(quorum: Quorum, after_ms: int | None = None) -> None:
    if after_ms is None:
        timeout_ms = quorum.settings.controller_quorum_election_timeout_ms
        after_ms = timeout_ms + quorum.jitter_ms(timeout_ms)
    quorum.runtime.set_timer((ELECTION,), after_ms)


def become_unattached(quorum: Quorum, epoch: int) -> None:
    """No leader is known in this epoch; wait for one, then start an election."""
    if epoch > quorum.epoch:
        quorum.voted_for = NO_LEADER
    quorum.epoch = epoch
    quorum.leader = NO_LEADER
    quorum.has_fetched = False
    quorum.persist()
    _become(quorum, QuorumRole.UNATTACHED)
    _set_election_timer(quorum)


def become_follower(quorum: Quorum, epoch: int, leader: int) -> None:
    """Follow a leader; it has the fetch timeout to answer."""
    if epoch > quorum.epoch:
        quorum.voted_for = NO_LEADER
    quorum.epoch = epoch
    quorum.leader = leader
    quorum.has_fetched = False
    quorum.failed_rounds = 0
    quorum.persist()
    quorum.runtime.mark(FOLLOWER)
    _become(quorum, QuorumRole.FOLLOWER)
    heard_from_leader(quorum, fetched=False)


def heard_from_leader(quorum: Quorum, *, fetched: bool) -> None:
    """QU-5: the leader answered; restart its timeout."""
    quorum.has_fetched = quorum.has_fetched or fetched
    timeout_ms = quorum.settings.controller_quorum_fetch_timeout_ms
    _set_election_timer(quorum, timeout_ms + quorum.jitter_ms(timeout_ms // 4))


def become_prospective(quorum: Quorum) -> None:
    """QU-6: ask whether this voter could win, without raising the epoch; nothing is persisted."""
    if not quorum.rules.first_asks_for_pre_votes():
        become_candidate(quorum)
        return
    quorum.runtime.mark(PROSPECTIVE)
    _become(quorum, QuorumRole.PROSPECTIVE)
    _ask_for_votes(quorum, pre_vote=True)


def become_candidate(quorum: Quorum) -> None:
    """QU-7: start a new epoch, vote for this voter, and request the others' votes."""
    quorum.epoch += 1
    quorum.leader = NO_LEADER
    quorum.voted_for = quorum.node_id
    quorum.persist()
    quorum.runtime.mark(CANDIDATE)
    _become(quorum, QuorumRole.CANDIDATE)
    _ask_for_votes(quorum, pre_vote=False)


def become_leader(quorum: Quorum) -> None:
    """QU-10: append a leader-change record, and announce the epoch to all voters."""
    quorum.leader = quorum.node_id
    quorum.failed_rounds = 0
    quorum.persist()
    quorum.runtime.mark(LEADER)
    _become(quorum, QuorumRole.LEADER)
    quorum.runtime.cancel_timer((ELECTION,))
    quorum.epoch_start = quorum.log.end_offset
    quorum.voters = {voter: FetchProgress() for voter in quorum.others}
    quorum.observers = {}
    quorum.leader_since_ms = quorum.runtime.now_ms
    change = encode_batch([(None, b"leader")], quorum.log.end_offset, quorum.epoch, 0, control=True)
    quorum.log.append_as_leader(change, quorum.epoch)
    check_quorum(quorum)


def resign(quorum: Quorum) -> None:
    """QU-13, QU-15: stop leading in this epoch; wait, then continue as a voter."""
    quorum.leader = NO_LEADER
    _become(quorum, QuorumRole.RESIGNED)
    quorum.runtime.cancel_timer((CHECK,))
    _set_election_timer(quorum)


# --- votes -----------------------------------------------------------------------------------------------------------


def _ask_for_votes(quorum: Quorum, *, pre_vote: bool) -> None:
    quorum.granted = {quorum.node_id: True}
    last_epoch, end = quorum.last_epoch_and_end()
    for voter in quorum.others:
        request = VoteRequest(
            quorum.settings.cluster_id, voter, quorum.node_id, quorum.epoch, last_epoch, end, pre_vote
        )
        quorum.runtime.send(
            voter,
            request,
            channel=CHANNEL,
            timeout_ms=quorum.settings.controller_quorum_request_timeout_ms,
            purpose=VOTE,
        )
    _set_election_timer(quorum)
    _count_votes(quorum)


def vote_answered(quorum: Quorum, voter: int, request: VoteRequest, response: VoteResponse | None) -> None:
    """QU-4, QU-6, QU-7: count a vote if it belongs to the current round."""
    if response is None or follow_newer(quorum, response.leader_epoch, response.leader_id):
        return
    expected = QuorumRole.PROSPECTIVE if request.pre_vote else QuorumRole.CANDIDATE
    if quorum.role is not expected or request.candidate_epoch != quorum.epoch or response.error_code:
        return
    quorum.granted[voter] = response.vote_granted
    _count_votes(quorum)


def _count_votes(quorum: Quorum) -> None:
    granted = sum(quorum.granted.values())
    refused = len(quorum.granted) - granted
    if granted >= quorum.majority:
        if quorum.role is QuorumRole.PROSPECTIVE:
            become_candidate(quorum)
        else:
            become_leader(quorum)
    elif refused > len(quorum.settings.voters) - quorum.majority:
        _back_off(quorum)


def _back_off(quorum: Quorum) -> None:
    """QU-6, QU-7: the round is lost; follow the known leader, or wait longer after each loss."""
    if quorum.role is QuorumRole.PROSPECTIVE and quorum.leader != NO_LEADER:
        quorum.runtime.mark(BACK_TO_LEADER)
        become_follower(quorum, quorum.epoch, quorum.leader)
        return
    quorum.runtime.mark(LOST_ROUND)
    quorum.failed_rounds += 1
    bound_ms = quorum.settings.controller_quorum_election_backoff_max_ms
    step_ms = min(bound_ms, 50 << min(quorum.failed_rounds, _DOUBLINGS_MAX))
    _become(quorum, QuorumRole.UNATTACHED)
    _set_election_timer(quorum, 1 + step_ms // 2 + quorum.jitter_ms(step_ms))


def timed_out(quorum: Quorum) -> None:
    """The election timer of the current role has fired."""
    match quorum.role:
        case QuorumRole.LEADER:
            return
        case QuorumRole.PROSPECTIVE | QuorumRole.CANDIDATE:
            _back_off(quorum)
        case QuorumRole.RESIGNED:
            become_unattached(quorum, quorum.epoch)
        case QuorumRole.FOLLOWER | QuorumRole.UNATTACHED:
            become_prospective(quorum)


def _is_credible(quorum: Quorum, sender: int, epoch: int) -> bool:
    """Whether a request that may move this voter to a newer epoch comes from another voter, with an epoch within reach.

    The epoch is a number of 32 bits: one near its end, once adopted, leaves none for the next election.
    """
    return sender in quorum.others and epoch - quorum.epoch <= EPOCHS_AHEAD_MAX


def _may_lead(quorum: Quorum, leader: int, epoch: int) -> bool:
    """Whether a request of a leader is credible, and this voter knows no other leader of the epoch."""
    known = quorum.leader if epoch == quorum.epoch else NO_LEADER
    return _is_credible(quorum, leader, epoch) and known in (NO_LEADER, leader)


def handle_vote(quorum: Quorum, request: VoteRequest) -> VoteResponse:
    """QU-2, QU-3, QU-8, QU-9."""
    if request.cluster_id != quorum.settings.cluster_id:
        return VoteResponse(ErrorCode.INCONSISTENT_CLUSTER_ID)
    if request.voter_id not in (quorum.node_id, UNKNOWN):
        return VoteResponse(ErrorCode.INVALID_VOTER_KEY)
    malformed = request.last_epoch > request.candidate_epoch - (not request.pre_vote)
    believed = _is_credible(quorum, request.candidate_id, request.candidate_epoch)
    if not believed or request.last_epoch_end_offset < 0 or malformed:
        return VoteResponse(ErrorCode.INVALID_REQUEST, quorum.leader, quorum.epoch)
    if request.candidate_epoch < quorum.epoch:
        quorum.runtime.mark(VOTE_OF_OLD_EPOCH)
        return VoteResponse(ErrorCode.FENCED_LEADER_EPOCH, quorum.leader, quorum.epoch)
    if request.candidate_epoch > quorum.epoch:
        quorum.runtime.mark(HIGHER_EPOCH_SEEN)
        become_unattached(quorum, request.candidate_epoch)
    candidate_end = (request.last_epoch, request.last_epoch_end_offset)
    own_end = quorum.last_epoch_and_end()
    if request.pre_vote:
        granted = quorum.rules.grants_pre_vote(
            quorum.leads, quorum.role is QuorumRole.FOLLOWER and quorum.has_fetched, candidate_end, own_end
        )
        behind = candidate_end < own_end
        quorum.runtime.mark(
            PRE_VOTE_GRANTED if granted else PRE_VOTE_REFUSED_LOG if behind else PRE_VOTE_REFUSED_LEADER
        )
    else:
        granted = quorum.role in (QuorumRole.UNATTACHED, QuorumRole.PROSPECTIVE) and quorum.rules.grants_vote(
            request.candidate_id, quorum.voted_for, quorum.leader, candidate_end, own_end
        )
        behind = candidate_end < own_end
        quorum.runtime.mark(VOTE_GRANTED if granted else VOTE_REFUSED_LOG if behind else VOTE_REFUSED_TAKEN)
        if granted:
            quorum.voted_for = request.candidate_id
            quorum.persist()
            _become(quorum, QuorumRole.UNATTACHED)
            _set_election_timer(quorum)
    return VoteResponse(ErrorCode.NONE, quorum.leader, quorum.epoch, granted)


def follow_newer(quorum: Quorum, epoch: int, leader: int) -> bool:
    """QU-4: adopt a newer epoch, or the current one's leader, from any response; returns whether it did."""
    if epoch > quorum.epoch:
        if leader not in (NO_LEADER, quorum.node_id):
            become_follower(quorum, epoch, leader)
        else:
            become_unattached(quorum, epoch)
        return True
    if epoch == quorum.epoch and leader not in (NO_LEADER, quorum.node_id):
        if quorum.leader == NO_LEADER and quorum.role is not QuorumRole.RESIGNED:
            quorum.runtime.mark(LEADER_LEARNT)
            become_follower(quorum, epoch, leader)
            return True
        if quorum.leader not in (NO_LEADER, leader):
            raise AssertionError(f"two leaders in epoch {epoch}: {quorum.leader} and {leader}")  # P-R2
    return False


# --- leading ---------------------------------------------------------------------------------------------------------


def check_quorum(quorum: Quorum) -> None:
    """QU-10, QU-13: announce the epoch to voters that do not fetch; resign when no majority fetches."""
    if not quorum.leads:
        return
    timeout_ms = quorum.settings.controller_quorum_fetch_timeout_ms
    now_ms = quorum.runtime.now_ms
    reached = 1 + sum(
        now_ms - max(p.last_fetch_ms, quorum.leader_since_ms) < timeout_ms * 3 // 2 for p in quorum.voters.values()
    )
    if reached < quorum.majority and quorum.rules.resigns_without_majority():
        quorum.runtime.mark(RESIGNED_WITHOUT_MAJORITY)
        quorum.runtime.log("warning", "quorum: no majority fetches from this leader; it resigns")
        resign(quorum)
        return
    for voter, progress in quorum.voters.items():
        if progress.last_fetch_ms == UNKNOWN or now_ms - progress.last_fetch_ms >= timeout_ms // 2:
            quorum.runtime.send(
                voter,
                BeginQuorumEpochRequest(quorum.settings.cluster_id, voter, quorum.node_id, quorum.epoch),
                channel=CHANNEL,
                timeout_ms=quorum.settings.controller_quorum_request_timeout_ms,
                purpose=BEGIN_EPOCH,
            )
    quorum.runtime.set_timer((CHECK,), max(1, timeout_ms // 2))


def handle_begin_epoch(quorum: Quorum, request: BeginQuorumEpochRequest) -> BeginQuorumEpochResponse:
    """QU-2, QU-3, QU-10: another voter has won the election."""
    if request.cluster_id != quorum.settings.cluster_id:
        return BeginQuorumEpochResponse(ErrorCode.INCONSISTENT_CLUSTER_ID)
    if request.voter_id not in (quorum.node_id, UNKNOWN):
        return BeginQuorumEpochResponse(ErrorCode.INVALID_VOTER_KEY)
    if request.leader_epoch < quorum.epoch:
        quorum.runtime.mark(OLD_EPOCH_ANNOUNCED)
        return BeginQuorumEpochResponse(ErrorCode.FENCED_LEADER_EPOCH, quorum.leader, quorum.epoch)
    if not _may_lead(quorum, request.leader_id, request.leader_epoch):
        return BeginQuorumEpochResponse(ErrorCode.INVALID_REQUEST, quorum.leader, quorum.epoch)
    follow_newer(quorum, request.leader_epoch, request.leader_id)
    return BeginQuorumEpochResponse(ErrorCode.NONE, quorum.leader, quorum.epoch)


def end_epoch(quorum: Quorum) -> None:
    """QU-14: resign in an orderly way; the voter with the longest log is named as first successor."""
    if not quorum.leads:
        return
    quorum.runtime.mark(RESIGNED_IN_ORDER)
    successors = tuple(
        voter for voter, _ in sorted(quorum.voters.items(), key=lambda item: (-item[1].log_end, item[0]))
    )
    for voter in quorum.others:
        quorum.runtime.send(
            voter,
            EndQuorumEpochRequest(quorum.settings.cluster_id, quorum.node_id, quorum.epoch, successors),
            channel=CHANNEL,
            timeout_ms=quorum.settings.controller_quorum_request_timeout_ms,
            purpose=END_EPOCH,
        )
    resign(quorum)


def handle_end_epoch(quorum: Quorum, request: EndQuorumEpochRequest) -> EndQuorumEpochResponse:
    """QU-14: the leader resigned; the first successor starts an election at once, the others after a delay."""
    if request.cluster_id != quorum.settings.cluster_id:
        return EndQuorumEpochResponse(ErrorCode.INCONSISTENT_CLUSTER_ID)
    if request.leader_epoch < quorum.epoch:
        return EndQuorumEpochResponse(ErrorCode.FENCED_LEADER_EPOCH, quorum.leader, quorum.epoch)
    if not _may_lead(quorum, request.leader_id, request.leader_epoch):
        return EndQuorumEpochResponse(ErrorCode.INVALID_REQUEST, quorum.leader, quorum.epoch)
    if request.leader_epoch > quorum.epoch:
        become_unattached(quorum, request.leader_epoch)
    if quorum.role in (QuorumRole.FOLLOWER, QuorumRole.UNATTACHED):
        become_unattached(quorum, quorum.epoch)
        rank = (
            request.preferred_successors.index(quorum.node_id)
            if quorum.node_id in request.preferred_successors
            else len(request.preferred_successors)
        )
        quorum.runtime.mark(HANDED_OVER_LATER if rank else HANDED_OVER_FIRST)
        if rank == 0:
            become_prospective(quorum)
        else:
            _set_election_timer(quorum, rank * quorum.settings.controller_quorum_election_timeout_ms // 2)
    return EndQuorumEpochResponse(ErrorCode.NONE, quorum.leader, quorum.epoch)
