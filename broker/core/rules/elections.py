"""Decides who may lead, and who stays eligible (§13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from broker.core.messages import NO_LEADER


class Election(NamedTuple):
    """The outcome of an election."""

    leader: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    unclean: bool = False


class IsrChange(NamedTuple):
    """A change of the ISR from `old_isr` to `isr`; other sets as before, `unclean` have just started uncleanly."""

    old_isr: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    replicas: tuple[int, ...]
    min_isr: int
    unclean: frozenset[int]


class ElectionRules:
    """The controller's decisions on leaders and the ELR."""

    def shrink(self, isr: tuple[int, ...], gone: int) -> tuple[int, ...]:
        """EL-5: a broker that is fenced leaves the ISR, which may become empty (KIP-966)."""
        return tuple(member for member in isr if member != gone)

    def raises_epoch_on_shrink(self) -> bool:
        """EL-11: a leader that stays keeps its epoch when the ISR shrinks (since metadata version 3.6)."""
        return False

    def last_known(
        self,
        before: tuple[int, tuple[int, ...]],
        leader: int,
        isr: tuple[int, ...],
        computed: tuple[int, ...],
        replicas: tuple[int, ...],
    ) -> tuple[int, ...]:
        """The LastKnownELR after a change, given ELR-2's (K5). `before` is the (leader, LastKnownELR) until now."""
        return computed

    def empties_elr(self) -> bool:
        """ELR-1: an ISR of sufficient size empties the ELR: other eligible replicas have lost their guarantee."""
        return True

    def forgets_elr_on_new_min_isr(self) -> bool:
        """ELR-6: a change of min ISR empties the ELR (KIP-966)."""
        return True

    def recovers_by_log(self) -> bool:
        """UR-4, UR-6: a partition without eligible replicas elects the best log among the last known ones."""
        return True

    def elects_unseen(self, *, looks_for_logs: bool) -> bool:
        """UR-5: an unclean election takes the first active replica only where no log is looked for."""
        return not looks_for_logs

    def eligible(self, change: IsrChange) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """ELR-1 and ELR-2: the new (ELR, LastKnownELR), both sorted, for a change of the ISR.

        Below min ISR the high watermark does not move, so a complete replica stays complete unless it stops uncleanly.
        """
        isr, replicas = set(change.isr), set(change.replicas)
        if len(change.isr) >= change.min_isr and self.empties_elr():
            return (), ()
        complete = set(change.elr) | set(change.old_isr)
        new_elr = (complete - isr - change.unclean) & replicas
        new_last_known = ((complete | set(change.last_known_elr)) - isr - new_elr) & replicas
        return tuple(sorted(new_elr)), tuple(sorted(new_last_known))

    def elect(
        self,
        leader: int,
        replicas: tuple[int, ...],
        isr: tuple[int, ...],
        elr: tuple[int, ...],
        is_active: Callable[[int], bool],
        *,
        prefer_first: bool,
        unclean_allowed: bool,
    ) -> Election:
        """EL-3, EL-4, EL-9: keep the leader, else the first active candidate in assignment order, else none.

        Candidates are the ISR or, if it is empty, the ELR. With `prefer_first` the preferred replica comes before the
        current leader. An unclean election, where it is allowed, takes the first active replica.
        """
        candidates = isr or elr
        if (
            leader in candidates
            and is_active(leader)
            and not (prefer_first and replicas[0] in candidates and is_active(replicas[0]))
        ):
            return self._elected(leader, isr, elr)
        for replica in replicas:
            if replica in candidates and is_active(replica):
                return self._elected(replica, isr, elr)
        if unclean_allowed:
            for replica in replicas:
                if is_active(replica):
                    return Election(replica, (replica,), (), unclean=True)
        return Election(NO_LEADER, isr, elr)

    def _elected(self, leader: int, isr: tuple[int, ...], elr: tuple[int, ...]) -> Election:
        if isr:
            return Election(leader, isr, elr)
        return Election(leader, (leader,), tuple(member for member in elr if member != leader))

    def may_lead_again(self, active: bool, *, replica: bool) -> bool:
        """UR-4 in K4: the last leader is elected only while it is active (KAFKA-19522), and still a replica."""
        return active and replica

    def recovery_quorum(
        self, last_known_elr: tuple[int, ...], replicas: tuple[int, ...], min_isr: int
    ) -> tuple[int, ...]:
        """UR-6: the replicas of which one must be complete: the last known eligible ones, of which min ISR are known.

        Where fewer are known, any replica may be the complete one, and all have to be asked.
        """
        return last_known_elr if len(last_known_elr) >= min_isr else replicas

    def quorum_on_request(self) -> tuple[int, ...]:
        """UR-14: an operator who asks for an unclean election needs no answer in particular."""
        return ()

    def is_recovery_quorum(self, quorum: tuple[int, ...], min_isr: int) -> bool:
        """ELR-8: at least min ISR replicas are in the set; all of them are queried, however many they are."""
        return len(quorum) >= min_isr

    def recovers_on_fencing(self) -> bool:
        """UR-3: a proactive recovery begins when a broker is fenced, not only when one comes back."""
        return True

    def elects_on_new_settings(self) -> bool:
        """EL-8: a setting that allows an unclean election takes effect for the partitions that wait for it."""
        return True

    def recovery_goes_on(self, begun_with: tuple[str, int], settings: tuple[str, int]) -> bool:
        """UR-4: another strategy or min ISR needs other answers: the recovery begins again, or ends."""
        return begun_with == settings

    def awaits_log_info(self, partition_epoch: int, epoch_of_job: int, *, asked: bool) -> bool:
        """UR-7: an answer counts if this replica is asked by the present recovery, in the same partition epoch."""
        return asked and partition_epoch == epoch_of_job

    def needs_log_info(self, member: int, needed: tuple[int, ...]) -> bool:
        """UR-6: only the members of the recovery quorum have to answer."""
        return member in needed

    def needs_every_log_info(self) -> bool:
        """UR-6: replicas outside the quorum are waited for only a little while."""
        return False

    def accepts_log_info(self, answered: int, asked: int, registered: int, *, active: bool) -> bool:
        """UR-7, UR-9: a replica's answer counts only for its incarnation, as long as that one is registered."""
        return active and answered == asked == registered

    def knows_leader_epoch(self, answered: int, present: int) -> bool:
        """UR-15: an answer of an earlier leader epoch may be of a log that is to be deleted, or still changes."""
        return answered >= present

    def may_be_elected(self, member: int, needed: tuple[int, ...]) -> bool:
        """UR-8: who may be complete: one of those whose answers were needed; where none was, any replica.

        Another replica may hold a later epoch, of a leader that never committed anything in it, and lack what later
        leaders committed of earlier epochs.
        """
        return not needed or member in needed

    def remembered(self, needed: tuple[int, ...], elected: int, min_isr: int) -> tuple[int, ...]:
        """UR-10: the last known ELR beside a leader by recovery: the others whose answers were needed.

        Until min ISR replicas are in sync nothing more is committed, and the elected log stays the best of theirs. If
        they were forgotten, and the leader stopped uncleanly soon after, anyone might be taken for complete.
        """
        return tuple(sorted(member for member in needed if member != elected)) if min_isr > 1 else ()

    def better_log(self, first: tuple[int, int], second: tuple[int, int]) -> bool:
        """UR-8: by last written leader epoch, then by log end offset."""
        return first > second
