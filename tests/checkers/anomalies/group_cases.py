"""Tiny histories of consumer groups, and of topics that are administered: each anomaly, and its near misses."""

from __future__ import annotations

from checkers.anomalies.groups import OFFSETS_TOPIC
from tests.checkers.anomalies.case_register import Case, register
from tests.checkers.histories import FINAL_MS, TOPIC, History

CASES: list[Case] = []
case = register(CASES)
LATE = (FINAL_MS + 20, FINAL_MS + 30)


def _asked_at_the_end(history: History, offset: int | None, node: int = 1) -> None:
    history.committed(offset, LATE, phase="final", node=node)
    history.final([])


# --- lost-commit ---------------------------------------------------------------------------------------------------


@case({})
def a_group_that_goes_on_where_it_was(history: History) -> None:
    history.owned(500, 1, (5, 30))
    history.commit(5, (10, 20))
    history.owned(501, 2, (40, 90))
    history.committed(5, (45, 50), process=501)
    history.commit(9, (60, 70), generation=2, process=501)
    _asked_at_the_end(history, 9)


@case({"lost-commit": (1, 0)})
def an_acknowledged_commit_is_gone(history: History) -> None:
    history.commit(5, (10, 20))
    history.commit(9, (30, 40))
    history.committed(5, (50, 60))
    _asked_at_the_end(history, 9)


@case({"lost-commit": (1, 0)})
def all_commits_of_a_group_are_gone(history: History) -> None:
    history.commit(5, (10, 20))
    _asked_at_the_end(history, None)


@case({"lost-commit": (1, 0)})
def an_answer_that_was_never_committed(history: History) -> None:
    history.commit(5, (10, 20))
    history.committed(3, (30, 40))
    _asked_at_the_end(history, 5)


@case({"lost-commit": (1, 0)})
def an_answer_that_is_a_refused_commit(history: History) -> None:
    history.commit(5, (10, 20))
    history.commit(3, (25, 28), status="fail")
    history.committed(3, (30, 40))
    _asked_at_the_end(history, 5)


@case({})
def a_question_that_a_commit_overtakes(history: History) -> None:
    history.commit(5, (10, 20))
    history.commit(9, (30, 50))
    history.committed(5, (40, 60))
    _asked_at_the_end(history, 9)


@case({})
def a_question_that_begins_as_a_commit_ends_is_concurrent(history: History) -> None:
    history.commit(5, (10, 20))
    history.commit(9, (30, 40))
    history.committed(5, (40, 50))
    _asked_at_the_end(history, 9)


@case({})
def a_commit_of_unknown_outcome_may_come_late(history: History) -> None:
    history.commit(5, (10, None), status="info")
    history.commit(9, (30, 40), process=501)
    history.committed(9, (50, 60))
    history.committed(5, (70, 80))
    _asked_at_the_end(history, 5)


@case({"lost-commit": (1, 0)})
def a_commit_of_unknown_outcome_does_not_explain_what_was_answered_before_it(history: History) -> None:
    history.commit(9, (10, 20), process=501)
    history.committed(5, (30, 40))
    history.commit(5, (50, None), status="info")
    _asked_at_the_end(history, 9)


@case({})
def a_question_that_failed_says_nothing(history: History) -> None:
    history.commit(5, (10, 20))
    history.committed(None, (30, 40), status="fail")
    _asked_at_the_end(history, 5)


@case({})
def another_partition_of_the_group_is_another_matter(history: History) -> None:
    history.commit(5, (10, 20))
    history.committed(None, (30, 40), partition=1)
    _asked_at_the_end(history, 5)


@case({}, verdict="unknown")
def a_commit_that_was_not_queried_at_the_end(history: History) -> None:
    history.commit(5, (10, 20))
    history.final([])


@case({}, verdict="unknown", spec='{"workload": "groups"}', workers=2)
def where_a_worker_died_its_commits_are_not_known(history: History) -> None:
    history.commit(5, (10, 20))
    history.committed(7, (30, 40))
    _asked_at_the_end(history, 5)


@case({"lost-commit": (0, 1)})
def a_commit_that_went_with_two_page_caches(history: History) -> None:
    history.sampled(5, 1, 0, topic=OFFSETS_TOPIC)
    history.commit(5, (10, 20))
    history.fault("page-cache-loss", [1, 2], (100, 500))
    history.sampled(700, 3, 1, topic=OFFSETS_TOPIC)
    _asked_at_the_end(history, None, node=3)


@case({"lost-commit": (1, 0)})
def a_commit_that_went_with_one_page_cache(history: History) -> None:
    history.sampled(5, 1, 0, topic=OFFSETS_TOPIC)
    history.commit(5, (10, 20))
    history.fault("page-cache-loss", [1], (100, 500))
    history.sampled(700, 3, 1, topic=OFFSETS_TOPIC)
    _asked_at_the_end(history, None, node=3)


@case({"lost-commit": (0, 1)})
def a_deposed_coordinator_may_be_stale(history: History) -> None:
    history.sampled(5, 1, 0, topic=OFFSETS_TOPIC)
    history.commit(5, (10, 20))
    history.sampled(50, 2, 1, brokers=(2, 3), topic=OFFSETS_TOPIC)
    history.commit(9, (60, 70), node=2)
    history.committed(5, (80, 90), node=1)
    history.sampled(100, 2, 1, brokers=(2, 3), topic=OFFSETS_TOPIC)
    _asked_at_the_end(history, 9)


@case({"lost-commit": (1, 0)})
def the_coordinator_itself_may_not(history: History) -> None:
    history.sampled(5, 1, 0, topic=OFFSETS_TOPIC)
    history.commit(5, (10, 20))
    history.sampled(50, 2, 1, brokers=(2, 3), topic=OFFSETS_TOPIC)
    history.commit(9, (60, 70), node=2)
    history.committed(5, (80, 90), node=2)
    history.sampled(100, 2, 1, brokers=(2, 3), topic=OFFSETS_TOPIC)
    _asked_at_the_end(history, 9)


# --- committed-offset-regression -----------------------------------------------------------------------------------


@case({"committed-offset-regression": (1, 0), "lost-commit": (2, 0)})
def an_answer_goes_back(history: History) -> None:
    history.commit(5, (10, 20))
    history.commit(9, (30, 40))
    history.committed(9, (50, 60))
    history.committed(5, (70, 80))
    _asked_at_the_end(history, 5)


@case({"committed-offset-regression": (1, 0)})
def an_answer_goes_back_although_no_commit_was_acknowledged(history: History) -> None:
    history.commit(9, (10, None), status="info")
    history.committed(9, (50, 60))
    _asked_at_the_end(history, None)


@case({})
def a_group_may_set_its_offset_back_itself(history: History) -> None:
    history.commit(9, (10, 20))
    history.committed(9, (30, 40))
    history.commit(5, (50, 60))
    _asked_at_the_end(history, 5)


@case({})
def answers_to_concurrent_questions_may_cross(history: History) -> None:
    history.commit(5, (10, 20))
    history.commit(9, (30, 90))
    history.committed(9, (40, 60))
    history.committed(5, (50, 80), process=501)
    _asked_at_the_end(history, 9)


@case({"committed-offset-regression": (1, 0)})
def a_commit_of_a_generation_that_is_over(history: History) -> None:
    history.commit(9, (10, 20), generation=6, process=501)
    history.commit(5, (30, 40), generation=5)
    _asked_at_the_end(history, 5)


@case({})
def a_commit_of_a_generation_that_is_over_is_refused(history: History) -> None:
    history.commit(9, (10, 20), generation=6, process=501)
    history.commit(5, (30, 40), generation=5, status="fail")
    _asked_at_the_end(history, 9)


@case({})
def a_commit_that_began_before_the_next_generation_had_committed(history: History) -> None:
    history.commit(5, (5, 30), generation=5)
    history.commit(9, (10, 20), generation=6, process=501)
    _asked_at_the_end(history, 9)


# --- double-ownership ----------------------------------------------------------------------------------------------


@case({"double-ownership": (1, 0)})
def two_members_of_one_generation_own_a_partition(history: History) -> None:
    history.owned(500, 6, (10, 50))
    history.owned(501, 6, (40, 90))
    history.final([])


@case({})
def two_members_of_one_generation_one_after_the_other(history: History) -> None:
    history.owned(500, 6, (10, 40))
    history.owned(501, 6, (40, 90))
    history.final([])


@case({})
def a_member_that_does_not_know_of_the_next_generation(history: History) -> None:
    history.owned(500, 6, (10, 50))
    history.owned(501, 7, (40, 90))
    history.final([])


@case({})
def two_members_own_different_partitions(history: History) -> None:
    history.owned(500, 6, (10, 50))
    history.owned(501, 6, (10, 50), partition=1)
    history.final([])


@case({})
def an_ownership_of_unknown_length(history: History) -> None:
    history.owned(500, 6, (10, None))
    history.owned(501, 6, (40, 90))
    history.final([])


@case({"double-ownership": (0, 1)})
def a_generation_that_two_page_caches_have_taken_with_them(history: History) -> None:
    history.sampled(5, 1, 0, topic=OFFSETS_TOPIC)
    history.owned(500, 6, (10, 900))
    history.fault("page-cache-loss", [1, 2], (100, 500))
    history.sampled(700, 3, 1, topic=OFFSETS_TOPIC)
    history.owned(501, 6, (800, 950))
    history.final([])


# --- rows that make no sense ---------------------------------------------------------------------------------------


@case({"malformed-history": (0, 3)}, verdict="unknown")
def rows_of_groups_that_make_no_sense(history: History) -> None:
    history.row("commits", op=10**6, group="readers", topic=TOPIC, partition=0, offset=4)
    history.commit(-5, (10, 20))
    history.owned(500, 6, (50, 10))
    history.final([])


# --- what the cluster writes down for itself -----------------------------------------------------------------------


@case({})
def the_log_of_groups_holds_no_values_of_ours(history: History) -> None:
    history.log(1, [None, None], topic=OFFSETS_TOPIC)
    history.log(2, [None, None], topic=OFFSETS_TOPIC)
    history.final([])


# --- topics that are deleted ---------------------------------------------------------------------------------------


@case({})
def the_writes_of_a_deleted_topic_are_not_lost(history: History) -> None:
    history.send(100, (10, 20), offset=0, topic="gone")
    history.administered("delete", "gone", (30, 40))
    history.final([])


@case({})
def a_deletion_of_unknown_outcome_may_have_happened(history: History) -> None:
    history.send(100, (10, 20), offset=0, topic="gone")
    history.administered("delete", "gone", (30, None), status="info")
    history.row("ends", topic="gone", partition=0, end_offset=1, agreed=True)
    history.final([])


@case({"unseen": (0, 1)}, verdict="unknown")
def a_topic_that_was_not_deleted_has_to_be_read(history: History) -> None:
    history.send(100, (10, 20), offset=0, topic="gone")
    history.administered("delete", "gone", (30, 40), status="fail")
    history.administered("delete", "another", (30, 40))
    history.final([])


@case({"phantom-read": (1, 0)})
def what_is_read_of_a_deleted_topic_has_to_be_true_all_the_same(history: History) -> None:
    history.send(100, (10, 20), offset=0, topic="gone")
    op = history.poll(0, [100, 999], (25, 28), assigned=True)
    for table in ("polls", "reads"):
        for row in history.tables[table]:
            if row["op"] == op:
                row["topic"] = "gone"
    history.administered("delete", "gone", (30, 40))
    history.final([])


@case({})
def a_deleted_topic_need_not_be_available(history: History) -> None:
    for at in range(1, 2_000, 100):
        history.send(10_000 + at, (at, at + 50), status="fail", topic="gone")
    history.administered("delete", "gone", (1, None), status="info")
    history.final([])


# --- losses that are allowed, and what they bring back -------------------------------------------------------------


@case({"inconsistent-offset": (0, 1)}, unclean_election=True)
def an_allowed_loss_moves_a_record(history: History) -> None:
    history.sampled(5, 1, 0, isr=(1, 2))
    history.send(100, (10, 20), status="info")
    history.poll(0, [100], (30, 40), assigned=True)
    history.sampled(45, 3, 1, isr=(3,), brokers=(3,))
    history.send(101, (50, 60), status="info", process=2)
    history.final([101, 100])


@case({"duplicate": (1, 0)}, unclean_election=True)
def two_copies_at_the_end_are_two_even_where_losses_are_allowed(history: History) -> None:
    history.send(100, (10, 20), status="info")
    history.final([100, 100])


@case({"duplicate": (0, 1), "inconsistent-offset": (0, 1)})
def two_page_caches_move_a_record(history: History) -> None:
    history.sampled(5, 1, 0)
    history.send(100, (10, 20), status="info")
    history.poll(0, [100], (30, 40), assigned=True)
    history.fault("page-cache-loss", [1, 2], (100, 500))
    history.sampled(700, 3, 1)
    history.send(101, (800, 810), status="info", process=2)
    history.final([101, 100])
