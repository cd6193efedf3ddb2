"""Tells what the simulator's findings say in sentences for readers who know Kafka: a table by property.

A pattern that matches what a finding says has a template, or a function, that says it. `incidents.findings_in_words`
looks them up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from common.wording import nodes
from incidents.transitions import numbers
from incidents.untrue_answers import PATTERN, untrue_answer

Match = re.Match[str]
Template = str | Callable[[Match, str], str]


def _unstored(match: Match, _name: str) -> str:
    """Say of a controller what its next start will not know."""
    voter, epoch, voted_for, found = match.groups()
    voted = "has voted for itself" if voted_for == voter else f"has voted for controller {voted_for}"
    knows = f"is in quorum epoch {epoch}" + ("" if voted_for == "-1" else f" and {voted}")
    harm = "after a restart it does not know that, and may vote again"
    return f"controller {voter} {knows}, and has {found} on its disk: {harm}"


_CHECKS: Final[Mapping[str, str]] = {
    "checkpoint": "stores its high watermarks",
    "isr-shrink": "looks for lagging followers",
    "retention": "deletes what retention lets go",
    "idle-producers": "forgets idle producers",
    "sessions": "looks for expired sessions of brokers",
    "balance-leaders": "looks for preferred leaders that do not lead",
    "quorum-check": "looks whether it still leads the quorum",
    "group": "looks for expired offsets of groups",
}
"""Key of a node's timer → what the node does when it fires."""


def _never_again(match: Match, _name: str) -> str:
    """Say of a node that runs what it will not do any more."""
    role, number, key = match.groups()
    does = _CHECKS.get(key, f"makes its check `{key}`")
    return f"{role} {number} runs on and never again {does}: it has set no timer for the next time"


def _too_soon(match: Match, _name: str) -> str:
    role, number, key, after_ms, interval_ms = match.groups()
    does = _CHECKS.get(key, f"makes its check `{key}`")
    return f"{role} {number} {does} again after {after_ms} ms, where it is to wait {interval_ms} ms"


def _more_than_needed(match: Match, name: str) -> str:
    isr, elr, last_known, least = numbers(match[2]), numbers(match[3]), numbers(match[4]), int(match[5])
    others = elr or last_known
    if len(isr) < least or not others or {*isr} & {*others}:
        return _sets(match, name)
    verb = "it need" if len(others) == 1 else "they need"
    return (
        f"the controller still lets {nodes(others)} be elected for {name}, although the ISR [{match[2]}] alone can"
        f" commit (min ISR {least}): {verb} not have what that commits"
    )


def _sets(match: Match, name: str) -> str:
    """Say which replicas count as what."""
    return (
        f"the controller's sets of replicas of {name} contradict each other: ISR [{match[2]}], ELR [{match[3]}],"
        f" last known ELR [{match[4]}], min ISR {match[5]}"
    )


def _bounds(match: Match, name: str) -> str:
    broker, start, high_watermark, end = match[1], int(match[2]), int(match[3]), int(match[4])
    if high_watermark < start:
        begins = f"the log of {name} on broker {broker} begins at {start}, above its high watermark {high_watermark}"
        return f"{begins}: only committed records may be deleted"
    return f"broker {broker} has the high watermark of {name} at {high_watermark}, and its log ends at {end}"


def _lacking_candidate(match: Match, name: str) -> str:
    broker, isr, elr, first, last = match.groups()
    what = "the record that is" if last is None else "the records that are"
    candidate = f"broker {broker} may be elected for {name} (ISR {isr}, ELR {elr})"
    return f"{candidate}, and lacks {what} committed {_at(first, last)}"


def _differing_candidate(match: Match, name: str) -> str:
    broker, isr, elr, own_epoch, first, epoch, last = match.groups()
    others = "another record than the committed one" if last is None else "other records than the committed ones"
    its = "its record is" if last is None else "its first one is"
    return (
        f"broker {broker} may be elected for {name} (ISR {isr}, ELR {elr}), and holds {others} {_at(first, last)}"
        f" ({its} of leader epoch {own_epoch}, the committed one of {epoch})"
    )


def _cut_off(match: Match, name: str) -> str:
    broker, end, cut_to, first, last = match.groups()
    committed = f"offset {first} was committed" if last is None else f"offsets {first} to {last} were committed"
    return f"broker {broker} cut its log of {name} back from end {end} to {cut_to}, although {committed}"


def _opened_short(match: Match, name: str) -> str:
    broker, first, last = match.groups()
    lacking = f"without what is committed {_at(first, last)}"
    return f"broker {broker}, which had lost no power, opened its log of {name} {lacking}"


def _at(first: str, last: str | None) -> str:
    return f"at offset {first}" if last is None else f"at offsets {first} to {last}"


def _acknowledged_before(match: Match, name: str) -> str:
    broker, end, first, last, by, leader, isr = match.groups()
    offsets = f"offset {first}" if first == last else f"offsets {first} to {last}"
    named = "no leader" if int(leader) < 0 else f"broker {leader} as leader"
    return (
        f"broker {broker} leads {name} with a log that ends at {end}; broker {by} had acknowledged {offsets} when"
        f" ZooKeeper named {named}, with the ISR {isr}"
    )


_SETS: Final = (
    r"replicas \[([\d, ]*)\], ISR \[([\d, ]*)\], ELR \[([\d, ]*)\], last known ELR \[([\d, ]*)\], min ISR (\d+), "
    r"partition epoch \d+"
)
_BATCH_OF: Final = r"\d+…\d+ of epoch (\d+)"
_AND_MORE: Final = r"(?:; it (?:lacks|cut off) the committed offsets \d+ to (\d+))?"
KNOWN: Final[Mapping[str, Iterable[tuple[str, Template]]]] = {
    "P-1": (
        (
            (
                r"broker (\d+) leads with log end (\d+) and without (\d+)…(\d+), which broker (\d+) has acknowledged"
                r" \(the tree named (-?\d+), in sync (\[.*\])\)"
            ),
            _acknowledged_before,
        ),
        (
            r"broker (\d+) leads epoch (\d+) with the log end \d+, and has nothing at (\d+), where .* is committed",
            r"broker \1, leader of {name} in leader epoch \2, lacks the record that is committed at offset \3",
        ),
        (
            (
                rf"broker (\d+) leads epoch (\d+) with the log end \d+, and has {_BATCH_OF} at (\d+), where {_BATCH_OF}"
                r" is committed"
            ),
            (
                r"broker \1, leader of {name} in leader epoch \2, holds another record than the committed one at"
                r" offset \4 (its record is of leader epoch \3, the committed one of \5)"
            ),
        ),
    ),
    "P-2": (
        (
            (
                r"broker (\d+) of broker epoch \d+ is in the (?:ISR|ELR) \(ISR (\[.*\]), ELR (\[.*\]), partition epoch"
                rf" \d+\) and has (?:nothing|no log) at (\d+), where .* is committed{_AND_MORE}"
            ),
            _lacking_candidate,
        ),
        (
            (
                r"broker (\d+) of broker epoch \d+ is in the (?:ISR|ELR) \(ISR (\[.*\]), ELR (\[.*\]), partition epoch"
                rf" \d+\) and has {_BATCH_OF} at (\d+), where {_BATCH_OF} is committed{_AND_MORE}"
            ),
            _differing_candidate,
        ),
    ),
    "P-3": (
        (
            (
                r"broker (\d+) has \d+…\d+ of epoch (\d+) at (\d+), below its high watermark \d+, where \d+…\d+ of "
                r"epoch (\d+) is committed"
            ),
            (
                r"broker \1 holds another record than the committed one at offset \3 of {name}, and takes it for "
                r"committed (its record is of leader epoch \2, the committed one of \4)"
            ),
        ),
        (
            (
                r"broker (\d+) has (\d+)…\d+ of epoch \d+ after \d+…\d+ of epoch (\d+), and another replica after"
                r" \d+…\d+ of epoch (\d+)"
            ),
            (
                r"the logs of {name} agree at offset \2 and differ before it: broker \1 has a record of leader epoch \3"
                r" there, another replica one of \4"
            ),
        ),
        (
            r"broker (\d+) has no batch at (\d+), only other bytes",
            r"the log of {name} on broker \1 holds bytes at offset \2 that are no record",
        ),
    ),
    "P-4": (
        (
            rf"at (\d+) {_BATCH_OF} is committed, and broker (\d+), leader of epoch (\d+), commits .*",
            (
                r"broker \3, leader of {name} in leader epoch \4, takes another record for committed at offset \1 than"
                r" the one that is"
            ),
        ),
    ),
    "P-5": (
        (
            r"broker (\d+) leads epoch \d+ and counts (\[.*\]); the controller may elect ISR (\[.*\]), ELR (\[.*\])",
            (
                r"broker \1, leader of {name}, goes by the replicas \2 for what is committed; the controller may elect"
                r" from ISR \3, ELR \4"
            ),
        ),
    ),
    "P-6": (
        (
            (
                r"broker (\d+) cut its log from (\d+) to (\d+), and what was at (\d+) is committed"
                rf"{_AND_MORE}"
            ),
            _cut_off,
        ),
        (
            (
                rf"broker (\d+) opened its log with the end \d+ and lost no power; what was at (\d+) is committed"
                rf"{_AND_MORE}"
            ),
            _opened_short,
        ),
    ),
    "P-7": (
        (
            (
                r"broker (\d+) started uncleanly and was not admitted since; leader -?\d+, ISR (\[.*\]), ELR (\[.*\]), "
                r"partition epoch \d+"
            ),
            (
                r"broker \1 came back from an unclean stop, which may have cost it records, and may still be elected "
                r"for {name} (ISR \2, ELR \3)"
            ),
        ),
        (
            r"broker (\d+) of epoch (\d+) was admitted to the ISR (\[.*\]) by what it had fetched in epoch (\d+)",
            (
                r"broker \1 was admitted to the ISR \3 of {name} by what it had fetched before its restart "
                r"(broker epoch \4; it is \2 now)"
            ),
        ),
    ),
    "P-10": ((r"broker (\d+) has log start (\d+), high watermark (\d+), log end (\d+)", _bounds),),
    "P-11": (
        (
            r"broker (\d+), leader of epoch \d+, gave a consumer (\d+)…\d+ of epoch \d+; committed there is .*",
            r"broker \1 gave a consumer the record at offset \2 of {name} before it was committed",
        ),
    ),
    "P-12": (
        (
            (
                r"broker (\d+), leader of epoch \d+, acknowledged offset (\d+); at \d+ .* is committed, and the "
                r"batch sent had .*"
            ),
            r"broker \1 acknowledged a write at offset \2 of {name}, where another record is committed",
        ),
    ),
    "P-15": (
        (
            (
                r"broker (\d+), leader of epoch \d+, acknowledged offset (\d+), which is in the logs of (\[.*\]) "
                r"only; min ISR is (\d+)"
            ),
            r"broker \1 acknowledged the record at offset \2 of {name}, which only \3 had in their logs (min ISR \4)",
        ),
    ),
    "P-16": (
        (
            r"broker (\d+) is (fenced|not registered|shutting down) and in the ISR (\[.*\]), leader (-?\d+)",
            r"broker \1 is \2, and nevertheless a member of the ISR \3 of {name}",
        ),
    ),
    "P-17": ((_SETS, _more_than_needed),),
    "P-18": (
        (
            _SETS,
            (
                r"the controller remembers too few replicas of {name}, which has no eligible one left: last known "
                r"ELR [\4], min ISR \5; an acknowledged record may be on another"
            ),
        ),
    ),
    "P-19": (
        (
            r"the partition epoch is (\d+) after a change, and was \1 before",
            (
                r"the controller changed the state of {name} and left its partition epoch at \1: who goes by the older"
                r" state is not refused"
            ),
        ),
    ),
    "P-21": (
        (
            r"broker (\d+) caches the epochs (\[.*\]), and its log from (\d+) to (\d+) has (\[.*\])",
            (
                r"what broker \1 remembers of leader epochs is not what its log of {name} holds: it remembers \2, "
                r"the log (offsets \3 to \4) has \5, as (epoch, first offset)"
            ),
        ),
    ),
    "P-22": (
        (
            r"broker (\d+) has ISR (\[.*\]), (\[.*\]) proposed, and the maximal ISR (\[.*\])",
            (
                r"broker \1 leads {name} by what it knows, and goes by the replicas \4 for what is committed, while its"
                r" ISR is \2: until its proposal \3 is answered it must wait for the members of both"
            ),
        ),
    ),
    "P-23": (
        (
            (
                r"the reassignment from (\[.*\]) to (\[.*\]) ended with the ISR (\[.*\]), min ISR (\d+); before it was"
                r" (\[.*\])"
            ),
            (
                r"the controller ended the reassignment of {name} from \1 to \2 with the ISR \3, smaller than min ISR"
                r" \4; the ISR before that was \5"
            ),
        ),
        (
            r"the reassignment from (\[.*\]) to (\[.*\]) ended with the ISR (\[.*\]), and without brokers (\[.*\]), .*",
            (
                r"the controller ended the reassignment of {name} from \1 to \2 with the ISR \3, before \4, which it"
                r" had added, were in sync"
            ),
        ),
        (
            rf"{_SETS}",
            (
                r"the controller lets brokers be elected for {name} that are not among its replicas [\1]: ISR [\2],"
                r" ELR [\3], last known ELR [\4]"
            ),
        ),
        (
            (
                r"the reassignment of (\[.*\]) was given up for (\[.*\]), of which (\[.*\]) are complete, min ISR "
                r"(\d+); before it were (\[.*\])"
            ),
            (
                r"the controller took back the reassignment of {name} from \1 to \2, of which \3 may be elected (min "
                r"ISR \4); before that \5 might"
            ),
        ),
        (
            (
                r"the replicas changed from (\[.*\]) to (\[.*\]) while there was no leader; brokers (\[.*\]) hold "
                r"all that is committed, and none of them can be elected any more"
            ),
            (
                r"the replicas of {name} changed from \1 to \2 while it had no leader; brokers \3 hold all that is "
                r"committed, and may no longer be elected"
            ),
        ),
    ),
    "P-25": (
        (
            r"broker (\d+) was elected by its log beside those of (\[.*\]), and only (\[.*\]) are remembered",
            (
                r"broker \1 was elected for {name} by an unclean recovery, which compared the logs of \2; the "
                r"controller keeps only \3 as complete or last known, and the next election may pass over the others"
            ),
        ),
        (
            r"broker (\d+) was elected uncleanly; the log ends that the controller has heard of: none",
            (
                r"broker \1 was elected for {name} by an unclean recovery, before the controller had heard how long "
                r"any replica's log is"
            ),
        ),
        (
            (
                r"broker (\d+) was elected by its log; the controller has heard of the logs of \[\], and needs those of"
                r" (\[[\d, ]*\]).*"
            ),
            r"broker \1 was elected for {name} by its log, before the controller had heard of the logs of \2",
        ),
        (
            (
                r"broker (\d+) was elected by its log; the controller has heard of the logs of (\[.*\]), and needs"
                r" those of (\[[\d, ]*\]).*"
            ),
            (
                r"broker \1 was elected for {name} by its log, when the controller had heard of the logs of \2 only,"
                r" and not of all of \3"
            ),
        ),
        (
            r"broker (\d+) was elected uncleanly; the log ends that the controller has heard of: (.*)",
            (
                r"broker \1 was elected for {name} by an unclean recovery, and has not the longest of the logs that "
                r"the controller had heard of (\2)"
            ),
        ),
    ),
    "P-28": (
        (
            r"broker (\d+) does not know the producers (\[.*\]), which are in its log",
            (
                r"broker \1 does not know the producer ids \2, whose records are in its log of {name}: it would "
                r"take a retry for a new write"
            ),
        ),
        (
            r"broker (\d+) knows the producers (\[.*\]), which are not in its log",
            (
                r"broker \1 remembers the producer ids \2, whose records are not in its log of {name}: it would "
                r"acknowledge a retry of these without writing it"
            ),
        ),
    ),
    "P-35": ((PATTERN, untrue_answer),),
    "P-36": (
        (
            (
                r"broker (\d+), leader of epoch (\d+), answered nothing of a log with the epoch (\d+) before (\d+),"
                r" where it has \d+…\d+ of epoch (\d+)"
            ),
            (
                r"broker \1, leader of {name} in leader epoch \2, did not tell a follower that their logs differ:"
                r" before offset \4 the follower has a record of leader epoch \3, the leader one of \5"
            ),
        ),
        (
            (
                r"broker (\d+), leader of epoch (\d+), answered that it diverges from a log with the epoch (\d+) before"
                r" (\d+)"
            ),
            (
                r"broker \1, leader of {name} in leader epoch \2, told a follower that their logs differ, though both"
                r" have a record of leader epoch \3 before offset \4"
            ),
        ),
    ),
    "P-40": (
        (
            r"controller (\d+) has obeyed a (\w+) of broker (\d+), epoch (\d+); it is registered with (\d+)",
            r"controller \1 obeyed a \2 that broker \3 had sent before its restart (broker epoch \4; it is \5 now)",
        ),
    ),
    "P-41": (
        (
            (
                r"controller (\d+) answers (\w+) to a change of the ISR of [\w.-]+ that rests on leader epoch (\d+), "
                r"partition epoch (\d+); the controller is in (\d+), (\d+)"
            ),
            (
                r"controller \1 refused a change of the ISR of {name} with \2, as if the leader were behind, while "
                r"it is the controller that is (partition epoch \6, the leader's is \4)"
            ),
        ),
    ),
    "P-42": (
        (
            (
                r"broker (\d+), at (\d+) in leader epoch (\d+), has applied the answer to a fetch that was sent at "
                r"\((\d+), (\d+)\) \(log end, leader epoch\): it is at (\d+), .*"
            ),
            (
                r"broker \1, in leader epoch \3, obeyed the answer to a fetch that it had sent in leader epoch \5, "
                r"and its log of {name} went from end \2 to \6"
            ),
        ),
    ),
    "P-43": (
        (
            r"broker (\d+) stopped cleanly, and left the ELR (\[.*\]) when it registered again; .*",
            (
                r"the controller took broker \1 out of the eligible replicas (ELR \2) of {name} when it came back, "
                r"as if it had lost data, although it had stopped cleanly"
            ),
        ),
    ),
    "P-T1": (
        (
            r"controller (\d+) acknowledged that (\S+) is created with id \S+; nothing is committed",
            (
                r"controller \1 acknowledged the creation of the topic \2 before it was committed: another "
                r"controller may not know of it"
            ),
        ),
    ),
    "P-R3": (
        (
            r"voter (\d+) has in its metadata log (\d+)…\d+ of epoch (\d+), and another replica .*",
            r"the metadata log of controller \1 differs from another controller's at offset \2 of epoch \3",
        ),
        (
            (
                r"voter (\d+) leads quorum epoch (\d+), and commits the metadata up to (\d+), which end with a "
                r"record of epoch (\d+)"
            ),
            (
                r"controller \1, leader of the quorum in epoch \2, took the metadata up to \3 for committed, which "
                r"end in epoch \4: a later leader may lack that"
            ),
        ),
        (
            r"voter (\d+) commits the metadata up to (\d+), which is on the disks of (\[.*\]) only",
            r"controller \1 took the metadata up to \2 for committed, which only \3 had on disk",
        ),
    ),
    "P-R4": (
        (
            r"voter (\d+) went from epoch (\d+) back to (\d+)",
            r"controller \1 went from quorum epoch \2 back to \3, so that it may vote twice in one epoch",
        ),
    ),
    "P-71": (
        (
            r"(broker|controller) (\d+) goes on, and has not planned its next check \('([a-z-]+)',.*\)",
            _never_again,
        ),
        (
            r"(broker|controller) (\d+) makes its check \('([a-z-]+)',.*\) after (\d+) ms; the interval is (\d+) ms",
            _too_soon,
        ),
    ),
    "P-79": (
        (
            r"voter (\d+) is in quorum epoch (\d+), has voted for (-?\d+), and has (.+) on its disk",
            _unstored,
        ),
    ),
    "crash": (
        (r"node (1\d\d) crashed: (.*)", r"controller \1 ended by itself: \2"),
        (r"node (\d+) crashed: (.*)", r"broker \1 ended by itself: \2"),
    ),
}
"""Property → patterns of its sentence, without the partition's name before it, and what is said instead."""
IN_A_SCHEDULE: Final = (
    (
        r"step (\d+): expected (\w+) = (.+), found (.+) after 0 ms",
        r"step \1 of the schedule expected `\2` = \3, found \4",
    ),
    (
        r"step (\d+): expected (\w+) = (.+), found (.+) after (\d+) ms",
        r"step \1 of the schedule waited \5 ms for `\2` = \3, found \4",
    ),
    (
        r"the cluster is not whole (\d+) s after the last step: leader -1, (.*)",
        r"\1 s after the last step of the schedule the partition has no leader: \2",
    ),
    (
        r"the cluster is not whole (\d+) s after the last step: leader (\d+), (.*)",
        r"\1 s after the last step of the schedule not all replicas are equal and in the ISR: leader \2, \3",
    ),
)
"""What a schedule expected, of any property."""
