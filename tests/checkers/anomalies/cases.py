"""One tiny history per anomaly and per near miss, with exactly the anomalies that must be found."""

from __future__ import annotations

from tests.checkers.anomalies.case_register import Case, Expected, register
from tests.checkers.histories import BOUND_MS, READER, TOPIC, History

CASES: list[Case] = []
case = register(CASES)

# --- nothing wrong -------------------------------------------------------------------------------------------------


@case({})
def everything_in_order(history: History) -> None:
    history.written([100, 101, 102])
    history.poll(0, [100, 101], (30, 40), assigned=True)
    history.poll(2, [102], (50, 60))
    history.final([100, 101, 102])


@case({})
def an_empty_partition(history: History) -> None:
    history.final([])


@case({})
def an_unknown_outcome_may_appear(history: History) -> None:
    history.send(100, (10, 20), status="info")
    history.final([100])


@case({})
def an_unknown_outcome_may_be_absent(history: History) -> None:
    history.send(100, (10, None), status="info")
    history.final([])


@case({})
def a_failed_send_may_be_absent(history: History) -> None:
    history.send(100, (10, 20), status="fail")
    history.final([])


# --- lost-acked-write ----------------------------------------------------------------------------------------------


@case({"lost-acked-write": (1, 0), "inconsistent-offset": (1, 0)})
def an_acknowledged_write_is_replaced(history: History) -> None:
    history.written([100, 101])
    history.send(102, (100, 110), status="info")
    history.final([100, 102])


@case({"lost-acked-write": (1, 0)})
def an_acknowledged_write_is_cut_off(history: History) -> None:
    history.written([100, 101])
    history.final([100])


@case({"lost-acked-write": (1, 0), "skipped-poll": (1, 0)})
def a_poll_passes_over_an_acknowledged_write(history: History) -> None:
    history.written([100, 101, 102])
    history.poll(0, [(0, 100), (2, 102)], (100, 110), assigned=True)
    history.final([100], end=1, agreed=False)


@case({"lost-acked-write": (1, 0), "lost-read": (1, 0), "inconsistent-offset": (1, 0), "unseen": (0, 1)})
def a_final_that_ends_too_early_shows_another_value_where_a_read_one_was(history: History) -> None:
    history.written([100, 101])
    history.poll(0, [100, 101], (50, 55), assigned=True)
    history.send(102, (60, 65), offset=1)
    history.send(103, (70, 75), offset=2)
    history.final([100, 102], end=2, agreed=False)


@case({}, verdict="unknown")
def a_final_that_ends_below_a_value_or_its_copy_does_not_show_it_lost(history: History) -> None:
    history.written([100, 101, 102])
    history.poll(0, [100, 101, 102], (50, 55), assigned=True)
    history.final([100], end=1, agreed=False)


@case({"unseen": (0, 2)}, verdict="unknown")
def an_unread_tail_is_unseen_not_lost(history: History) -> None:
    history.written([100, 101, 102])
    history.poll(0, [100], (100, 110), assigned=True)
    history.final([100], end=1, agreed=False)


@case({"unseen": (0, 1)}, verdict="unknown")
def a_reader_that_started_behind_it_proves_no_loss(history: History) -> None:
    history.written([100, 101, 102])
    history.poll(2, [102], (100, 110), assigned=True)
    history.final([100], end=1, agreed=False)


@case({"unseen": (0, 1)}, verdict="unknown")
def a_final_with_a_gap_is_not_complete(history: History) -> None:
    history.written([100, 101, 102])
    history.poll(0, [100], (110_000, 110_001), process=990, phase="final", assigned=True)
    history.poll(2, [102], (110_002, 110_003), process=990, phase="final", assigned=True)
    history.row("ends", topic=TOPIC, partition=0, end_offset=3, agreed=True)


@case({}, verdict="unknown")
def two_half_readers_are_no_final(history: History) -> None:
    history.written([100, 101])
    history.poll(0, [100], (110_000, 110_001), process=990, phase="final", assigned=True)
    history.poll(1, [101], (110_002, 110_003), process=991, phase="final", assigned=True)
    history.row("ends", topic=TOPIC, partition=0, end_offset=2, agreed=True)


@case({"unseen": (0, 1)}, verdict="unknown")
def a_partition_without_an_end_is_unknown(history: History) -> None:
    history.written([100])


@case({})
def records_below_the_log_start_are_not_lost(history: History) -> None:
    history.written([100, 101, 102])
    history.sampled(50_000, 1, 0, log_start=2)
    history.poll(2, [102], (110_000, 110_001), process=990, phase="final", assigned=True)
    history.row("ends", topic=TOPIC, partition=0, end_offset=3, agreed=True)


@case({})
def acks_0_promises_nothing(history: History) -> None:
    history.send(100, (10, 20), acks=0)
    history.final([])


@case({"lost-acked-write": (1, 0)}, acks=1)
def acks_1_is_broken_when_the_leader_stayed(history: History) -> None:
    history.sampled(5, 1, 0)
    history.send(100, (10, 20), acks=1, offset=0)
    history.sampled(50, 1, 0)
    history.final([])


@case({"lost-acked-write": (0, 1)}, acks=1)
def acks_1_is_lost_within_the_contract_when_the_leader_changed(history: History) -> None:
    history.sampled(5, 1, 0)
    history.send(100, (10, 20), acks=1, offset=0)
    history.fault("kill", [1], (20, 500))
    history.sampled(50, 2, 1, isr=(2, 3))
    history.final([])


@case({"lost-acked-write": (0, 1), "inconsistent-offset": (0, 1)}, acks=1)
def after_an_acks_1_loss_the_offset_belongs_to_another(history: History) -> None:
    history.sampled(5, 1, 0)
    history.send(100, (10, 20), acks=1, offset=0)
    history.sampled(50, 2, 1)
    history.send(101, (60, 70), acks=1, offset=0, node=2)
    history.final([101])


@case({"lost-acked-write": (1, 0)}, acks=1)
def acks_1_is_broken_when_the_leader_changed_only_before(history: History) -> None:
    history.sampled(1, 2, 0)
    history.sampled(5, 1, 1)
    history.send(100, (10, 20), acks=1, offset=0)
    history.sampled(50, 1, 1)
    history.final([])


@case({"lost-acked-write": (0, 1)}, acks=1)
def acks_1_of_a_leader_that_did_not_know_it_was_deposed_is_lost_within_the_contract(history: History) -> None:
    history.sampled(5, 1, 0)
    history.sampled(8, 2, 1, isr=(2, 3), brokers=(2, 3))
    history.send(100, (10, 20), acks=1, offset=0, node=1)
    history.sampled(50, 2, 1)
    history.final([])


@case({"lost-acked-write": (0, 1)}, acks=1)
def acks_1_is_lost_within_the_contract_when_the_leader_lost_its_page_cache(history: History) -> None:
    history.sampled(5, 1, 0)
    history.send(100, (10, 20), acks=1, offset=0)
    history.fault("page-cache-loss", [1], (30, 500))
    history.sampled(600, 1, 0)
    history.final([])


@case({"lost-acked-write": (1, 0)}, acks=1)
def acks_1_is_broken_when_only_a_follower_lost_its_page_cache(history: History) -> None:
    history.sampled(5, 1, 0)
    history.send(100, (10, 20), acks=1, offset=0)
    history.fault("page-cache-loss", [2], (30, 500))
    history.sampled(600, 1, 0)
    history.final([])


# --- the contract of acks=all --------------------------------------------------------------------------------------


@case({"lost-acked-write": (1, 0)})
def one_lossy_shutdown_excuses_nothing(history: History) -> None:
    history.sampled(5, 1, 0)
    history.written([100])
    history.fault("page-cache-loss", [1], (100, 500))
    history.sampled(300, 2, 1, isr=(2, 3), brokers=(2, 3))
    history.sampled(600, 2, 1)
    history.sampled(700, 2, 1)
    history.final([])


@case({"lost-acked-write": (1, 0)}, controllers=3)
def controllers_that_forget_excuse_nothing(history: History) -> None:
    history.sampled(5, 1, 0)
    history.written([100])
    history.fault("page-cache-loss", [100, 101, 102], (100, 500))
    history.fault("page-cache-loss", [1], (100, 500))
    history.sampled(700, 3, 1)
    history.final([])


@case({"lost-acked-write": (0, 1)})
def two_lossy_shutdowns_at_once_excuse_a_loss(history: History) -> None:
    history.sampled(5, 1, 0)
    history.written([100])
    history.fault("page-cache-loss", [1, 2], (100, 500))
    history.sampled(700, 3, 1)
    history.final([])


@case({"lost-acked-write": (0, 1)}, volatile=True, system="memory", replication_factor=1, min_insync_replicas=1)
def what_is_kept_in_memory_alone_ends_with_its_process(history: History) -> None:
    history.sampled(5, 1, 0)
    history.written([100])
    history.fault("kill", [1], (100, 500))
    history.sampled(700, 1, 0)
    history.final([])


@case({"lost-acked-write": (1, 0)}, system="files", replication_factor=1, min_insync_replicas=1)
def a_kill_takes_nothing_that_was_written_to_files(history: History) -> None:
    history.sampled(5, 1, 0)
    history.written([100])
    history.fault("kill", [1], (100, 500))
    history.sampled(700, 1, 0)
    history.final([])


@case({"lost-acked-write": (1, 0)}, volatile=True, system="memory")
def a_copy_in_another_memory_outlives_the_end_of_one_process(history: History) -> None:
    history.sampled(5, 1, 0)
    history.written([100])
    history.fault("kill", [1], (100, 500))
    history.sampled(700, 2, 1)
    history.final([])


@case({"lost-acked-write": (1, 0)}, volatile=True, system="memory", replication_factor=1, min_insync_replicas=1)
def a_pause_ends_no_process(history: History) -> None:
    history.sampled(5, 1, 0)
    history.written([100])
    history.fault("pause", [1], (100, 500))
    history.sampled(700, 1, 0)
    history.final([])


@case({"lost-acked-write": (0, 1)})
def a_window_lasts_until_the_replica_is_back_in_sync(history: History) -> None:
    history.sampled(5, 1, 0)
    history.written([100])
    history.fault("page-cache-loss", [1], (100, 500))
    history.sampled(600, 2, 1, isr=(2, 3))
    history.sampled(700, 2, 1, isr=(2, 3))
    history.fault("page-cache-loss", [2], (800, 900))
    history.sampled(1_000, 3, 2)
    history.final([])


def a_loss_and_two_shutdowns(history: History, lacks_ms: int) -> None:
    """Two windows overlap from 800 ms on; the leader is seen without the record at `lacks_ms`."""
    history.sampled(5, 1, 0)
    history.written([100])
    history.sampled(50, 1, 0, high_watermark=1)
    history.fault("page-cache-loss", [1], (100, 500))
    for at_ms in (550, lacks_ms - 10):
        history.sampled(at_ms, 1, 0, isr=(2, 3), high_watermark=1)
    for at_ms in (lacks_ms, lacks_ms + 20, lacks_ms + 40):
        history.sampled(at_ms, 1, 0, isr=(2, 3))
    history.fault("page-cache-loss", [2], (800, 900))
    history.sampled(1_000, 3, 2)
    history.final([])


@case({"lost-acked-write": (1, 0)})
def what_was_gone_before_a_second_shutdown_was_not_lost_by_it(history: History) -> None:
    a_loss_and_two_shutdowns(history, 700)


def a_replaced_record_and_a_shutdown(history: History, fault_ms: tuple[int, int]) -> None:
    history.sampled(5, 1, 0)
    history.written([100])
    history.sampled(150, 2, 1)
    history.send(101, (160, 170), offset=0, node=2)
    history.fault("page-cache-loss", [1], fault_ms)
    history.sampled(1_000, 2, 1)
    history.final([101])


@case({"lost-acked-write": (1, 0), "inconsistent-offset": (1, 0)}, min_insync_replicas=1)
def what_was_replaced_before_a_shutdown_was_not_by_it(history: History) -> None:
    a_replaced_record_and_a_shutdown(history, (800, 900))


@case({"lost-acked-write": (0, 1), "inconsistent-offset": (0, 1)}, min_insync_replicas=1)
def what_was_replaced_after_a_shutdown_may_have_been_by_it(history: History) -> None:
    a_replaced_record_and_a_shutdown(history, (100, 900))


@case({"lost-acked-write": (0, 1)})
def what_is_seen_to_be_gone_after_a_second_shutdown_may_have_been_lost_by_it(history: History) -> None:
    a_loss_and_two_shutdowns(history, 950)


@case({"lost-acked-write": (0, 1)})
def a_deposed_leader_that_lacks_a_record_does_not_show_that_it_is_gone(history: History) -> None:
    history.sampled(5, 1, 0)
    history.sampled(60, 2, 1, brokers=(2, 3))
    history.sampled(70, 2, 1, brokers=(2, 3))
    history.written([100], first_ms=100, node=2)
    history.sampled(200, 2, 1, brokers=(2, 3), high_watermark=1)
    history.sampled(300, 1, 0, brokers=(1,))
    history.fault("page-cache-loss", [2, 3], (800, 900))
    history.sampled(1_000, 1, 2)
    history.final([])


def a_loss_and_a_later_shutdown_without_epochs(history: History, rounds: int = 6, first_ms: int = 100) -> None:
    """Broker 2 leads next, lacks the record, and so often all are sampled to agree that it leads; then one shuts down.

    The first round of the new leader is not one in which all have answered.
    """
    history.sampled(5, 1, None)
    history.written([100])
    history.sampled(50, 1, None, high_watermark=1)
    for at_ms in range(first_ms, first_ms + 100 * rounds, 100):
        history.sampled(at_ms, 2, None)
    history.fault("page-cache-loss", [3], (900, 950))
    history.final([])


@case({"lost-acked-write": (1, 0)}, min_insync_replicas=1)
def without_epochs_what_a_leader_lacked_that_all_followed_was_not_lost_by_what_came_later(history: History) -> None:
    a_loss_and_a_later_shutdown_without_epochs(history)


@case({"lost-acked-write": (1, 0)}, min_insync_replicas=1)
def without_epochs_a_replica_that_came_back_as_a_follower_may_have_been_away_before(history: History) -> None:
    for at_ms in (60, 70, 80):
        history.sampled(at_ms, 2, None, brokers=(2, 3))
    a_loss_and_a_later_shutdown_without_epochs(history)


@case({"lost-acked-write": (0, 1)}, min_insync_replicas=1)
def without_epochs_a_few_samples_do_not_show_that_all_follow_the_leader(history: History) -> None:
    a_loss_and_a_later_shutdown_without_epochs(history, rounds=5)


@case({"lost-acked-write": (0, 1)}, min_insync_replicas=1)
def without_epochs_what_all_agree_on_only_after_a_shutdown_began_does_not_show_what_was_before(
    history: History,
) -> None:
    a_loss_and_a_later_shutdown_without_epochs(history, first_ms=500)


@case({"lost-acked-write": (0, 1)}, min_insync_replicas=1)
def without_epochs_a_replica_that_is_not_sampled_may_lead(history: History) -> None:
    for at_ms in range(100, 800, 100):
        history.sampled(at_ms + 50, 2, None, brokers=(2, 3))
    a_loss_and_a_later_shutdown_without_epochs(history, rounds=0)


@case({"lost-acked-write": (0, 1)}, min_insync_replicas=1, brokers=4, replication_factor=4)
def without_epochs_a_replica_that_was_never_sampled_may_lead(history: History) -> None:
    a_loss_and_a_later_shutdown_without_epochs(history)


@case({"lost-acked-write": (0, 1)}, min_insync_replicas=1, brokers=4)
def without_epochs_a_replica_that_was_in_sync_before_may_lead(history: History) -> None:
    history.sampled(4, 1, None, isr=(1, 2, 3, 4))
    a_loss_and_a_later_shutdown_without_epochs(history)


@case({"lost-acked-write": (0, 1)}, min_insync_replicas=1)
def without_epochs_a_leader_that_lacks_a_record_may_be_deposed_if_another_one_leads(history: History) -> None:
    history.sampled(350, 1, None, brokers=(1,), high_watermark=1)
    a_loss_and_a_later_shutdown_without_epochs(history)


@case({"lost-acked-write": (0, 1)}, min_insync_replicas=1)
def without_epochs_a_leader_that_lacks_a_record_may_be_deposed_if_a_replica_follows_another(history: History) -> None:
    history.sampled(350, 1, None, brokers=(3,), high_watermark=1)
    a_loss_and_a_later_shutdown_without_epochs(history)


@case({"lost-acked-write": (0, 1)}, min_insync_replicas=1)
def without_epochs_a_leader_that_lacks_a_record_may_be_deposed_if_a_replica_knows_no_leader(history: History) -> None:
    history.sampled(350, -1, None, brokers=(3,), high_watermark=1)
    a_loss_and_a_later_shutdown_without_epochs(history)


@case({"lost-acked-write": (0, 1)}, min_insync_replicas=1)
def without_epochs_a_record_may_be_acknowledged_while_all_are_sampled(history: History) -> None:
    history.sampled(5, 1, None, high_watermark=1)
    for at_ms in range(100, 700, 100):
        history.sampled(at_ms, 2, None)
    history.written([100], first_ms=250)
    history.fault("page-cache-loss", [3], (900, 950))
    history.final([])


@case({"lost-acked-write": (0, 1)}, min_insync_replicas=1)
def a_leader_that_all_follow_shows_nothing_where_there_are_epochs(history: History) -> None:
    history.sampled(1_500, 2, 1, brokers=(2,))
    a_loss_and_a_later_shutdown_without_epochs(history)


def an_offset_that_is_given_again(history: History, again_ms: tuple[int, int], shutdowns_ms: tuple[int, int]) -> None:
    """Without leader epochs, as in designs that have none; two shutdowns overlap from the first moment on."""
    history.sampled(5, 1, None)
    history.send(100, (10, 20), offset=0)
    history.send(101, again_ms, offset=0, node=2, process=2)
    history.fault("page-cache-loss", [1, 2], shutdowns_ms)
    history.final([101])


@case({"lost-acked-write": (1, 0), "inconsistent-offset": (1, 0)})
def what_was_gone_when_its_offset_was_given_again_was_not_lost_by_what_came_later(history: History) -> None:
    an_offset_that_is_given_again(history, (30, 40), (50, 100))


@case({"lost-acked-write": (0, 1), "inconsistent-offset": (0, 1)})
def what_was_lost_before_its_offset_was_given_again_is_excused(history: History) -> None:
    an_offset_that_is_given_again(history, (110, 120), (50, 100))


@case({"lost-acked-write": (0, 1), "inconsistent-offset": (1, 0)})
def of_two_sends_at_once_the_offset_may_have_been_given_to_the_other_before(history: History) -> None:
    an_offset_that_is_given_again(history, (15, 40), (50, 100))


def an_end_that_is_told_between_two_shutdowns(history: History, sent_ms: tuple[int, int]) -> None:
    """Broker 1 is not back in the ISR when broker 2, which has told the end, is shut down as well."""
    history.sampled(5, 1, 0)
    history.send(100, sent_ms, offset=0, node=2)
    history.fault("page-cache-loss", [1], (100, 150))
    history.sampled(152, 2, 1, isr=(2, 3), brokers=(2, 3))
    history.latest(1, (160, 170), node=2)
    history.sampled(180, 2, 1, isr=(2, 3), high_watermark=1)
    history.fault("page-cache-loss", [2], (200, 250))
    history.sampled(260, 3, 2, isr=(3,), brokers=(3,))
    history.sampled(270, 3, 2, isr=(3,))
    history.latest(0, (300, 310), node=3)
    history.sampled(320, 3, 2, isr=(3,))
    history.final([])


@case({"lost-acked-write": (0, 1), "end-offset-regression": (0, 1), "stale-read": (0, 1)})
def an_end_may_go_back_by_what_its_last_record_may_be_lost_by(history: History) -> None:
    an_end_that_is_told_between_two_shutdowns(history, (10, 20))


@case({"lost-acked-write": (1, 0), "end-offset-regression": (1, 0), "stale-read": (1, 0)})
def an_end_may_not_go_back_where_its_last_record_may_not_be_lost(history: History) -> None:
    an_end_that_is_told_between_two_shutdowns(history, (154, 158))


@case({"lost-acked-write": (1, 0)})
def shutdowns_one_after_the_other_excuse_nothing(history: History) -> None:
    history.sampled(5, 1, 0)
    history.written([100])
    history.fault("page-cache-loss", [1], (100, 500))
    history.sampled(600, 2, 1)
    history.sampled(700, 2, 1)
    history.fault("page-cache-loss", [2], (800, 900))
    history.sampled(1_000, 3, 2)
    history.final([])


@case({"lost-acked-write": (1, 0)})
def shutdowns_before_the_write_excuse_nothing(history: History) -> None:
    history.sampled(5, 1, 0)
    history.fault("page-cache-loss", [1, 2], (10, 50))
    history.sampled(60, 3, 1)
    history.sampled(70, 3, 1)
    history.written([100], first_ms=100)
    history.sampled(200, 3, 1)
    history.final([])


def a_write_between_two_shutdowns(history: History, kind: str, held_ms: int | None) -> None:
    """Broker 3 is out of the ISR when the record is written, so that it is on brokers 1 and 2 alone."""
    history.sampled(5, 1, 0)
    history.fault(kind, [3], (10, 400), held_ms=held_ms)
    history.sampled(60, 1, 0, isr=(1, 2))
    history.written([100], first_ms=100)
    history.fault("page-cache-loss", [2], (500, 600))
    history.sampled(700, 1, 1, isr=(1,))
    history.final([])


@case({"lost-acked-write": (1, 0)})
def a_shutdown_before_the_write_took_none_of_its_copies(history: History) -> None:
    a_write_between_two_shutdowns(history, "page-cache-loss", held_ms=20)


@case({"lost-acked-write": (0, 1)})
def a_shutdown_of_which_nobody_noted_the_time_may_have_come_after_the_write(history: History) -> None:
    a_write_between_two_shutdowns(history, "page-cache-loss", held_ms=None)


@case({"lost-acked-write": (0, 1)})
def a_disk_that_lies_about_syncing_crashes_at_the_end_of_the_fault(history: History) -> None:
    a_write_between_two_shutdowns(history, "lying-fsync", held_ms=20)


@case({"lost-acked-write": (1, 0)})
def lossy_shutdowns_that_did_not_take_hold_excuse_nothing(history: History) -> None:
    history.sampled(5, 1, 0)
    history.written([100])
    history.fault("page-cache-loss", [1, 2], (100, 500), took_hold=False)
    history.final([])


@case({"lost-acked-write": (1, 0)})
def plain_kills_of_all_replicas_excuse_nothing(history: History) -> None:
    history.sampled(5, 1, 0)
    history.written([100])
    history.fault("kill", [1, 2, 3], (100, 500))
    history.sampled(700, 3, 1)
    history.final([])


@case({"lost-acked-write": (0, 1)}, unclean_election=True)
def an_allowed_unclean_election_excuses_a_loss(history: History) -> None:
    history.sampled(5, 1, 0, isr=(1, 2))
    history.written([100])
    history.sampled(50, 3, 1, isr=(3,), brokers=(3,))
    history.final([])


@case({"lost-acked-write": (0, 1), "inconsistent-offset": (0, 1)}, unclean_election=True)
def an_offset_may_be_given_again_before_the_unclean_election_is_seen(history: History) -> None:
    history.sampled(5, 1, 0, isr=(1, 2))
    history.send(100, (10, 20), offset=0)
    history.send(101, (30, 40), offset=0, node=3, process=2)
    history.sampled(50, 3, 1, isr=(3,), brokers=(3,))
    history.final([101])


@case({"lost-acked-write": (1, 0)}, unclean_election=True)
def a_clean_election_excuses_nothing_even_where_unclean_ones_are_allowed(history: History) -> None:
    history.sampled(5, 1, 0, isr=(1, 2))
    history.written([100])
    history.sampled(50, 2, 1, isr=(2,), brokers=(2,))
    history.final([])


@case({"lost-acked-write": (1, 0)}, unclean_election=True)
def an_election_from_the_elr_is_clean(history: History) -> None:
    history.sampled(5, 1, 0, isr=(1,), elr=(3,))
    history.written([100])
    history.sampled(50, 3, 1, isr=(3,), brokers=(3,))
    history.final([])


@case({"lost-acked-write": (1, 0)})
def an_unclean_election_that_is_not_allowed_excuses_nothing(history: History) -> None:
    history.sampled(5, 1, 0, isr=(1, 2))
    history.written([100])
    history.sampled(50, 3, 1, isr=(3,), brokers=(3,))
    history.final([])


# --- lost-read -----------------------------------------------------------------------------------------------------


@case({"lost-read": (1, 0), "dirty-read": (1, 0)})
def a_record_that_was_read_is_gone(history: History) -> None:
    history.send(100, (10, None), status="info")
    history.poll(0, [100], (30, 40), assigned=True)
    history.final([])


@case({})
def a_record_of_a_failed_poll_is_not_a_lost_read(history: History) -> None:
    history.send(100, (10, None), status="info")
    history.poll(0, [100], (30, None), status="info", assigned=True)
    history.final([])


@case({}, verdict="unknown")
def without_a_complete_final_no_read_is_lost(history: History) -> None:
    history.send(100, (10, None), status="info")
    history.poll(0, [100], (30, 40), assigned=True)
    history.final([], end=0, agreed=False)


@case({"duplicate": (0, 1)}, verdict="unknown", idempotence=False)
def a_final_that_ends_below_the_copy_of_a_retry_proves_no_loss(history: History) -> None:
    history.send(100, (10, 20), offset=0)
    history.poll(0, [100], (30, 40), assigned=True)
    history.poll(2, [100], (50, 60), assigned=True)
    history.final([], end=1, agreed=False)


# --- offsets -------------------------------------------------------------------------------------------------------


@case({"inconsistent-offset": (1, 0), "lost-read": (1, 0), "dirty-read": (1, 0)})
def two_readers_see_two_values_at_one_offset(history: History) -> None:
    history.send(100, (10, None), status="info")
    history.send(101, (10, None), status="info", process=2)
    history.poll(0, [100], (30, 40), assigned=True)
    history.final([101])


@case({"inconsistent-offset": (0, 1), "duplicate": (0, 1), "wrong-offset": (0, 1)}, acks=1, idempotence=False)
def the_second_copy_of_a_retry_with_acks_1_is_replaced_and_only_the_first_was_read(history: History) -> None:
    history.sampled(5, 1, 0)
    history.send(100, (10, 20), acks=1, offset=1)
    history.poll(0, [100], (30, 40), assigned=True)
    history.sampled(50, 2, 1)
    history.send(101, (60, 70), acks=1, offset=1, node=2)
    history.final([100, 101])


@case({"inconsistent-offset": (1, 0), "duplicate": (0, 1)}, acks=1, idempotence=False)
def the_second_copy_of_a_retry_with_acks_1_is_replaced_after_it_was_read(history: History) -> None:
    history.sampled(5, 1, 0)
    history.send(100, (10, 20), acks=1, offset=1)
    history.poll(0, [100, 100], (30, 40), assigned=True)
    history.sampled(50, 2, 1)
    history.send(101, (60, 70), acks=1, offset=1, node=2)
    history.final([100, 101])


@case({"wrong-offset": (1, 0), "duplicate": (1, 0)})
def an_idempotent_send_is_read_at_another_offset(history: History) -> None:
    history.send(100, (10, 20), offset=1)
    history.final([100])


@case({"duplicate": (0, 1)}, idempotence=False)
def a_retry_without_idempotence_leaves_two_copies(history: History) -> None:
    history.send(100, (10, 20), offset=1)
    history.final([100, 100])


@case({"duplicate": (0, 1)}, verdict="unknown", idempotence=False)
def the_first_copy_of_a_retry_read_alone_is_no_wrong_offset(history: History) -> None:
    history.send(100, (10, 20), offset=1)
    history.poll(0, [100], (30, 40), assigned=True)
    history.final([100], end=1, agreed=False)


@case({"duplicate": (1, 0)})
def an_idempotent_send_is_read_twice(history: History) -> None:
    history.send(100, (10, 20), status="info")
    history.final([100, 100])


@case({"duplicate": (0, 1)})
def a_client_may_write_it_again_in_a_later_epoch_of_its_producer(history: History) -> None:
    history.send(100, (10, 20), status="info")
    history.repeated(100, [(0, 7, 0), (1, 7, 1)])
    history.final([100, 100])


@case({"duplicate": (0, 1), "wrong-offset": (0, 1)})
def the_copy_of_the_later_epoch_is_the_one_that_is_acknowledged(history: History) -> None:
    history.send(100, (10, 20), offset=1)
    history.repeated(100, [(0, 7, 3), (1, 7, 4)])
    history.final([100, 100])


@case({"duplicate": (1, 0)})
def two_copies_of_one_producer_epoch_are_the_brokers_doing(history: History) -> None:
    history.send(100, (10, 20), status="info")
    history.repeated(100, [(0, 7, 1), (1, 7, 1)])
    history.final([100, 100])


@case({"duplicate": (1, 0)})
def a_third_copy_of_the_same_producer_epoch_is_the_brokers_doing(history: History) -> None:
    history.send(100, (10, 20), status="info")
    history.repeated(100, [(0, 7, 0), (1, 7, 1), (2, 7, 1)])
    history.final([100, 100, 100])


@case({"duplicate": (1, 0)})
def copies_of_two_producers_show_no_epoch_that_was_raised(history: History) -> None:
    history.send(100, (10, 20), status="info")
    history.repeated(100, [(0, 7, 0), (1, 8, 1)])
    history.final([100, 100])


@case({"duplicate": (1, 0)})
def a_producer_epoch_that_goes_down_is_none_that_was_raised(history: History) -> None:
    history.send(100, (10, 20), status="info")
    history.repeated(100, [(0, 7, 1), (1, 7, 0)])
    history.final([100, 100])


@case({"duplicate": (1, 0)})
def replicas_that_name_other_producer_epochs_are_no_evidence(history: History) -> None:
    history.send(100, (10, 20), status="info")
    history.repeated(100, [(0, 7, 0), (1, 7, 1)], brokers=(1, 2))
    history.repeated(100, [(0, 7, 1), (1, 7, 1)], brokers=(3,))
    history.final([100, 100])


@case({"duplicate": (1, 0)})
def a_copy_without_a_known_producer_epoch_is_no_evidence(history: History) -> None:
    history.send(100, (10, 20), status="info")
    history.repeated(100, [(0, 7, 0), (1, 7, None)])
    history.final([100, 100])


@case({"duplicate": (1, 0), "wrong-offset": (1, 0)})
def the_copies_in_the_log_do_not_explain_another_offset(history: History) -> None:
    history.send(100, (10, 20), offset=5)
    history.repeated(100, [(0, 7, 3), (1, 7, 4)])
    history.final([100, 100])


@case({})
def gaps_in_offsets_are_no_anomaly(history: History) -> None:
    history.send(100, (10, 20), offset=0)
    history.send(101, (30, 40), offset=5)
    history.poll(0, [(0, 100), (5, 101)], (50, 60), assigned=True)
    history.final([(0, 100), (5, 101)])


# --- reads ---------------------------------------------------------------------------------------------------------


@case({"phantom-read": (1, 0)})
def a_value_that_was_never_sent(history: History) -> None:
    history.final([999])


@case({"phantom-read": (1, 0)})
def a_value_sent_to_another_partition(history: History) -> None:
    history.send(100, (10, None), status="info", partition=1)
    history.final([100])
    history.final([], partition=1)


@case({}, verdict="unknown", workers=2)
def where_a_worker_died_an_unknown_value_proves_nothing(history: History) -> None:
    history.final([999])


@case({"corrupt-record": (1, 0)})
def bytes_that_were_never_sent_are_read(history: History) -> None:
    history.written([100])
    history.final([100, None])


@case({"aborted-read": (1, 0)})
def a_failed_send_is_read(history: History) -> None:
    history.send(100, (10, 20), status="fail")
    history.final([100])


# --- order of sends ------------------------------------------------------------------------------------------------


@case({"reordered-send": (1, 0)})
def a_later_send_of_another_process_gets_the_lower_offset(history: History) -> None:
    history.send(100, (10, 20), offset=1)
    history.send(101, (30, 40), offset=0, process=2)
    history.final([101, 100])


@case({"nonmonotonic-send": (1, 0)})
def a_later_send_of_the_same_process_gets_the_lower_offset(history: History) -> None:
    history.send(100, (10, 20), offset=1)
    history.send(101, (30, 40), offset=0)
    history.final([101, 100])


@case({"nonmonotonic-send": (1, 0)})
def a_process_that_sends_as_its_last_send_ends_sends_after_it(history: History) -> None:
    history.send(100, (10, 20), offset=1)
    history.send(101, (20, 30), offset=2)
    history.send(102, (30, 40), offset=0)
    history.final([102, 100, 101])


@case({"nonmonotonic-send": (1, 0)})
def a_send_whose_outcome_is_known_late_hides_no_earlier_one(history: History) -> None:
    history.send(100, (10, 20), offset=1)
    history.send(101, (30, None), status="info")
    history.send(102, (40, 50), offset=0)
    history.final([102, 100, 101])


@case({})
def a_send_without_answer_may_take_effect_after_later_ones_of_its_process(history: History) -> None:
    history.send(100, (10, None), status="info")
    history.send(101, (20, 30), offset=0)
    history.final([101, 100])


@case({})
def sends_of_a_process_may_take_no_time(history: History) -> None:
    history.send(100, (10, 10), offset=0)
    history.send(101, (10, 10), offset=1)
    history.final([100, 101])


@case({})
def concurrent_sends_may_be_in_any_order(history: History) -> None:
    history.send(100, (10, 30), offset=1)
    history.send(101, (20, 40), offset=0, process=2)
    history.final([101, 100])


@case({})
def a_send_that_begins_as_another_ends_is_concurrent(history: History) -> None:
    history.send(100, (10, 20), offset=1)
    history.send(101, (20, 40), offset=0, process=2)
    history.final([101, 100])


@case({"reordered-send": (0, 1), "lost-acked-write": (0, 1)}, acks=1)
def after_an_acks_1_loss_offsets_start_again(history: History) -> None:
    history.sampled(5, 1, 0)
    history.send(100, (10, 20), acks=1, offset=1)
    history.sampled(50, 2, 1)
    history.send(101, (60, 70), acks=1, offset=0, process=2, node=2)
    history.final([101])


@case({"lost-acked-write": (0, 1)})
def what_was_lost_with_acks_1_leaves_its_offset_to_sends_to_all(history: History) -> None:
    history.sampled(5, 1, 0)
    history.send(100, (10, 20), acks=1, offset=1)
    history.sampled(50, 2, 1)
    history.send(101, (60, 70), offset=0, process=2, node=2)
    history.final([101])


# --- stale reads ---------------------------------------------------------------------------------------------------


@case({"stale-read": (1, 0)})
def the_leader_itself_forgets_what_it_acknowledged(history: History) -> None:
    history.sampled(5, 1, 0)
    history.written([100])
    history.latest(0, (30, 40))
    history.sampled(50, 1, 0)
    history.final([100])


@case({"stale-read": (1, 0)})
def an_empty_poll_of_the_leader_is_stale(history: History) -> None:
    history.sampled(5, 1, 0)
    history.written([100])
    history.poll(0, [], (30, 40), assigned=True)
    history.sampled(50, 1, 0)
    history.final([100])


@case({})
def an_unanswered_poll_says_nothing(history: History) -> None:
    history.sampled(5, 1, 0)
    history.written([100])
    history.poll(0, [], (30, 40), assigned=True, node=None)
    history.final([100])


@case({})
def a_question_put_before_the_acknowledgement_may_miss_it(history: History) -> None:
    history.sampled(5, 1, 0)
    history.send(100, (10, 30), offset=0)
    history.latest(0, (20, 40))
    history.poll(0, [], (30, 40), assigned=True)
    history.final([100])


@case({})
def acks_1_need_not_be_visible_at_once(history: History) -> None:
    history.send(100, (10, 20), acks=1, offset=0)
    history.latest(0, (30, 40))
    history.final([100])


@case({"stale-read": (0, 1)})
def a_deposed_leader_may_be_stale(history: History) -> None:
    history.sampled(5, 1, 0)
    history.sampled(50, 2, 1, brokers=(2, 3))
    history.send(100, (60, 70), offset=0, node=2)
    history.latest(0, (80, 90), node=1)
    history.sampled(100, 2, 1, brokers=(2, 3))
    history.final([100])


@case({"stale-read": (0, 1)})
def while_leadership_changes_a_stale_answer_is_excused(history: History) -> None:
    history.sampled(5, 1, 0)
    history.send(100, (10, 20), offset=0, node=2)
    history.latest(0, (30, 40), node=1)
    history.sampled(50, 2, 1, brokers=(2, 3))
    history.final([100])


@case({"stale-read": (1, 0)})
def a_leader_that_follows_itself_may_not_name_a_stale_end(history: History) -> None:
    history.sampled(5, 1, 0)
    history.send(100, (10, 20), offset=0, node=1)
    history.sampled(25, -1, 1, brokers=(2, 3))
    history.latest(0, (30, 40), node=1)
    history.sampled(50, 1, 2)
    history.final([100])


@case({"stale-read": (0, 1)})
def another_may_have_led_in_an_epoch_that_no_sample_shows(history: History) -> None:
    history.sampled(5, 1, 0)
    history.send(100, (10, 20), offset=0, node=1)
    history.latest(0, (30, 40), node=1)
    history.sampled(50, 1, 2)
    history.final([100])


@case({"stale-read": (0, 1)})
def a_leader_that_follows_itself_may_hold_polls_back(history: History) -> None:
    history.sampled(5, 1, 0)
    history.send(100, (10, 20), offset=0, node=1)
    history.sampled(25, -1, 1, brokers=(2, 3))
    history.poll(0, [], (30, 40), assigned=True, node=1)
    history.sampled(50, 1, 2)
    history.final([100])


@case({"stale-read": (1, 0)})
def the_first_leader_of_all_led_before_it_was_sampled(history: History) -> None:
    history.send(100, (10, 20), offset=0, node=1)
    history.latest(0, (30, 40), node=1)
    history.sampled(50, 1, 0)
    history.final([100])


@case({"stale-read": (0, 1)})
def before_a_later_leader_was_sampled_another_may_have_led(history: History) -> None:
    history.send(100, (10, 20), offset=0, node=1)
    history.latest(0, (30, 40), node=1)
    history.sampled(50, 1, 1)
    history.final([100])


@case({"stale-read": (0, 1)})
def a_new_leader_may_hold_polls_back(history: History) -> None:
    history.sampled(5, 1, 0)
    history.send(100, (10, 20), offset=0, node=1)
    history.sampled(50, 2, 1, high_watermark=0)
    history.poll(0, [], (60, 70), assigned=True, node=2)
    history.sampled(80, 2, 1)
    history.final([100])


@case({"stale-read": (1, 0)})
def a_new_leader_that_has_caught_up_may_not(history: History) -> None:
    history.sampled(5, 1, 0)
    history.send(100, (10, 20), offset=0, node=1)
    history.sampled(50, 2, 1, high_watermark=1)
    history.poll(0, [], (60, 70), assigned=True, node=2)
    history.sampled(80, 2, 1, high_watermark=1)
    history.final([100])


@case({"stale-read": (1, 0)})
def a_new_leader_may_not_name_a_stale_end(history: History) -> None:
    history.sampled(5, 1, 0)
    history.send(100, (10, 20), offset=0, node=1)
    history.sampled(50, 2, 1)
    history.latest(0, (60, 70), node=2)
    history.sampled(80, 2, 1)
    history.final([100])


@case({"stale-read": (0, 1)}, verdict="unknown")
def without_samples_and_logs_a_stale_answer_is_undecided(history: History) -> None:
    history.send(100, (10, 20), offset=0, node=1)
    history.latest(0, (60, 70), node=2)
    history.final([100])


@case({"stale-read": (0, 1)})
def an_epoch_in_the_log_shows_that_another_had_led_before(history: History) -> None:
    history.send(100, (10, 20), offset=0, node=1)
    history.latest(0, (60, 70), node=2)
    history.final([100])
    history.log(1, [100], epoch=1)


@case({"stale-read": (0, 1)})
def an_epoch_without_a_leader_shows_that_another_had_led_before(history: History) -> None:
    history.sampled(5, -1, 1)
    history.send(100, (10, 20), offset=0, node=1)
    history.latest(0, (60, 70), node=2)
    history.final([100])


@case({"stale-read": (1, 0)})
def without_samples_nobody_has_led_before_the_first_epoch(history: History) -> None:
    history.send(100, (10, 20), offset=0, node=1)
    history.latest(0, (60, 70), node=2)
    history.final([100])
    history.log(1, [100], epoch=0)


@case({"stale-read": (1, 0)})
def a_later_epoch_in_the_log_is_no_excuse_for_a_stale_end(history: History) -> None:
    history.send(100, (10, 20), offset=0, node=1)
    history.latest(0, (60, 70), node=2)
    history.send(101, (80, 90), offset=1, node=2)
    history.final([100, 101])
    history.log(2, [100, 101], epochs=[0, 1])


@case({"stale-read": (0, 1)})
def a_later_epoch_in_the_log_shows_a_leader_that_may_hold_polls_back(history: History) -> None:
    history.send(100, (10, 20), offset=0, node=1)
    history.poll(0, [], (60, 70), assigned=True, node=1)
    history.send(101, (80, 90), offset=1, node=2)
    history.final([100, 101])
    history.log(2, [100, 101], epochs=[0, 1])


@case({"stale-read": (1, 0)})
def the_broker_that_acknowledged_it_may_not_hold_it_back_in_the_same_epoch(history: History) -> None:
    history.send(100, (10, 20), offset=0, node=1)
    history.poll(0, [], (60, 70), assigned=True, node=1)
    history.final([100])
    history.log(1, [100], epoch=1)


@case({"stale-read": (1, 0)})
def what_the_first_leader_acknowledged_no_leader_before_it_can_lack(history: History) -> None:
    history.send(100, (10, 20), offset=0, node=1)
    history.latest(0, (30, 40), node=2)
    history.sampled(50, 1, 1)
    history.final([100])
    history.log(1, [100], epoch=0)


@case({"stale-read": (0, 1)})
def what_was_read_may_have_been_committed_by_a_later_leader(history: History) -> None:
    history.send(100, (10, 20), status="info")
    history.poll(0, [100], (30, 40), assigned=True, node=2)
    history.latest(0, (50, 60), node=1, process=902)
    history.send(101, (80, 90), offset=1, node=2)
    history.final([100, 101])
    history.log(2, [100, 101], epochs=[0, 1])


@case({"end-offset-regression": (1, 0)})
def an_end_goes_back_though_nobody_but_the_first_has_led(history: History) -> None:
    history.send(100, (10, None), status="info")
    history.latest(1, (30, 40), node=1)
    history.latest(0, (50, 60), node=2)
    history.final([100])
    history.log(1, [100], epoch=0)


@case({"end-offset-regression": (0, 1)})
def an_end_may_be_older_where_the_log_shows_a_change_of_leader(history: History) -> None:
    history.send(100, (10, None), status="info")
    history.latest(1, (30, 40), node=1)
    history.latest(0, (50, 60), node=2)
    history.final([100])
    history.log(1, [100], epoch=1)


@case({"stale-read": (1, 0)}, brokers=1, replication_factor=1, min_insync_replicas=1)
def a_lone_broker_is_its_own_leader(history: History) -> None:
    history.send(100, (10, 20), offset=0, node=None)
    history.latest(0, (60, 70), node=None)
    history.final([100])


@case({"end-offset-regression": (1, 0)})
def the_end_of_the_log_goes_back(history: History) -> None:
    history.sampled(5, 1, 0)
    history.send(100, (10, None), status="info")
    history.latest(1, (30, 40))
    history.latest(0, (50, 60))
    history.sampled(70, 1, 0)
    history.final([100])


@case({"end-offset-regression": (0, 1)})
def a_deposed_leader_may_name_an_older_end(history: History) -> None:
    history.sampled(5, 1, 0)
    history.send(100, (10, None), status="info")
    history.sampled(20, 2, 1, brokers=(2, 3))
    history.latest(1, (30, 40), node=2)
    history.latest(0, (50, 60), node=1)
    history.final([100])


@case({"end-offset-regression": (0, 1)})
def an_end_that_a_deposed_leader_may_have_shown_has_no_known_source(history: History) -> None:
    history.sampled(5, 1, 0, high_watermark=1)
    history.send(100, (10, 15), offset=0, node=1)
    history.sampled(20, 2, 1, brokers=(2, 3), high_watermark=0)
    history.poll(1, [], (30, 40), assigned=True, node=None, high_watermark=1)
    history.sampled(50, 2, 1, high_watermark=0)
    history.poll(1, [], (60, 70), node=2, high_watermark=0)
    history.sampled(80, 2, 1, high_watermark=1)
    history.final([100])


@case({"end-offset-regression": (1, 0)})
def a_new_leader_may_not_take_back_an_end_that_it_alone_can_have_shown(history: History) -> None:
    history.sampled(5, 1, 0, high_watermark=1)
    history.send(100, (10, 15), offset=0, node=1)
    history.sampled(20, 2, 1, high_watermark=0)
    history.poll(1, [], (30, 40), assigned=True, node=None, high_watermark=1)
    history.sampled(50, 2, 1, high_watermark=0)
    history.poll(1, [], (60, 70), node=2, high_watermark=0)
    history.sampled(80, 2, 1, high_watermark=1)
    history.final([100])


@case({})
def overlapping_questions_may_be_answered_in_any_order(history: History) -> None:
    history.send(100, (10, None), status="info")
    history.latest(1, (30, 50))
    history.latest(0, (40, 60))
    history.final([100])


# --- resolved outcomes ---------------------------------------------------------------------------------------------


@case({"reordered-send": (1, 0)})
def a_send_that_was_read_before_another_began_has_the_lower_offset(history: History) -> None:
    history.send(100, (10, 20), status="info")
    history.poll(1, [100], (30, 40), assigned=True)
    history.send(101, (50, 60), offset=0, process=2)
    history.final([101, 100])


@case({})
def a_send_that_was_read_after_another_began_may_have_any_offset(history: History) -> None:
    history.send(100, (10, 20), status="info")
    history.send(101, (35, 60), offset=0, process=2)
    history.poll(1, [100], (30, 40), assigned=True)
    history.final([101, 100])


@case({"stale-read": (1, 0)})
def what_one_was_shown_another_is_not(history: History) -> None:
    history.sampled(5, 1, 0)
    history.send(100, (10, 20), status="info")
    history.poll(0, [100], (30, 40), assigned=True)
    history.poll(0, [], (50, 60), process=901, assigned=True)
    history.sampled(70, 1, 0)
    history.final([100])


@case({"stale-read": (1, 0)})
def one_of_two_that_were_shown_it_at_once_knows_by_whom(history: History) -> None:
    history.sampled(5, 1, 0)
    history.send(100, (10, 20), status="info")
    history.poll(0, [100], (30, 40), assigned=True, node=None)
    history.poll(0, [100], (35, 40), process=901, assigned=True)
    history.latest(0, (50, 60), process=902)
    history.sampled(70, 1, 0)
    history.final([100])


@case({"stale-read": (1, 0)})
def one_who_was_shown_it_later_knows_by_whom(history: History) -> None:
    history.sampled(5, 1, 0)
    history.send(100, (10, 20), status="info")
    history.poll(0, [100], (30, 40), assigned=True, node=None)
    history.poll(0, [100], (41, 45), process=901, assigned=True)
    history.latest(0, (50, 60), process=902)
    history.sampled(70, 1, 0)
    history.final([100])


@case({})
def who_showed_it_first_is_not_known(history: History) -> None:
    history.sampled(5, 1, 0)
    history.send(100, (10, 20), status="info")
    history.poll(0, [100], (30, 40), assigned=True, node=None)
    history.latest(0, (50, 60), process=902)
    history.poll(0, [100], (55, 65), process=901, assigned=True)
    history.sampled(70, 1, 0)
    history.final([100])


# --- dirty-read ----------------------------------------------------------------------------------------------------


@case({"dirty-read": (1, 0)})
def a_leader_serves_what_it_has_not_committed(history: History) -> None:
    history.sampled(5, 1, 0, high_watermark=0)
    history.send(100, (10, 100), offset=0)
    history.poll(0, [100], (20, 30), assigned=True)
    history.sampled(40, 1, 0, high_watermark=0)
    history.sampled(50, 1, 0, high_watermark=0)
    history.sampled(90, 1, 0, high_watermark=1)
    history.final([100])


@case({})
def a_leader_that_was_started_again_may_know_of_less_than_it_had_committed(history: History) -> None:
    history.sampled(5, 1, 0, high_watermark=0)
    history.send(100, (10, 15), offset=0)
    history.sampled(16, 1, 0, high_watermark=1)
    history.poll(0, [100], (20, 30), assigned=True)
    history.sampled(40, 1, 0, high_watermark=0)
    history.sampled(50, 1, 0, high_watermark=0)
    history.final([100])


@case({})
def a_leader_that_was_seen_not_to_lead_meanwhile_may_know_of_less(history: History) -> None:
    history.sampled(5, 1, 0, high_watermark=0)
    history.send(100, (10, 15), offset=0)
    history.poll(0, [100], (20, 30), assigned=True)
    history.sampled(40, -1, None, brokers=(1,))
    history.sampled(50, 1, 0, high_watermark=0)
    history.sampled(60, 1, 0, high_watermark=0)
    history.final([100])


@case({})
def a_sample_may_have_been_taken_before_the_poll_ended(history: History) -> None:
    history.sampled(5, 1, 0, high_watermark=0)
    history.send(100, (10, 100), offset=0)
    history.poll(0, [100], (20, 30), assigned=True)
    history.sampled(40, 1, 0, high_watermark=0)
    history.sampled(50, 1, 0, high_watermark=1)
    history.final([100])


@case({})
def a_new_leader_may_know_of_less_than_the_old_one_committed(history: History) -> None:
    history.sampled(5, 1, 0, high_watermark=1)
    history.send(100, (10, 15), offset=0)
    history.poll(0, [100], (20, 30), assigned=True)
    history.sampled(40, 2, 1, high_watermark=0)
    history.sampled(50, 2, 1, high_watermark=0)
    history.sampled(60, 1, 2, high_watermark=0)
    history.sampled(70, 1, 2, high_watermark=0)
    history.final([100])


@case({"lost-read": (1, 0), "dirty-read": (1, 0)})
def what_was_never_acknowledged_is_read_and_gone(history: History) -> None:
    history.send(100, (10, None), status="info")
    history.poll(0, [100], (20, 30), assigned=True)
    history.final([])


@case({"lost-read": (1, 0)})
def what_an_answer_called_committed_is_gone(history: History) -> None:
    history.send(100, (10, None), status="info")
    history.poll(0, [100], (20, 30), assigned=True, high_watermark=1)
    history.final([])


@case({"lost-read": (1, 0), "duplicate": (1, 0)})
def what_answers_of_one_moment_showed_at_two_offsets_was_called_committed_at_the_lower_one(history: History) -> None:
    history.send(100, (10, None), status="info")
    history.poll(0, [100, 100], (20, 30), assigned=True, process=901)
    history.poll(0, [100, 100], (20, 30), assigned=True, high_watermark=1)
    history.poll(0, [100, 100], (20, 30), assigned=True, process=902)
    history.final([])


@case({"lost-read": (1, 0), "dirty-read": (1, 0)})
def an_answer_showed_more_than_it_called_committed_and_that_is_gone(history: History) -> None:
    history.send(100, (10, None), status="info")
    history.poll(0, [100], (20, 30), assigned=True, high_watermark=0)
    history.final([])


# --- positions -----------------------------------------------------------------------------------------------------


@case({"nonmonotonic-poll": (1, 0)})
def a_reader_goes_back(history: History) -> None:
    history.written([100, 101])
    history.poll(0, [100, 101], (100, 110), assigned=True)
    history.poll(1, [101], (120, 130))
    history.final([100, 101])


@case({})
def a_reader_goes_back_by_a_seek(history: History) -> None:
    history.written([100, 101])
    history.poll(0, [100, 101], (100, 110), assigned=True)
    history.poll(0, [100, 101], (120, 130), assigned=True)
    history.final([100, 101])


@case({"nonmonotonic-poll": (1, 0)})
def a_poll_returns_records_backwards(history: History) -> None:
    history.written([100, 101])
    history.poll(0, [(1, 101), (0, 100)], (100, 110), assigned=True, next_position=2)
    history.final([100, 101])


@case({"skipped-poll": (1, 0)})
def a_reader_jumps_over_a_record(history: History) -> None:
    history.written([100, 101, 102])
    history.poll(0, [100], (100, 110), assigned=True)
    history.poll(2, [102], (120, 130))
    history.final([100, 101, 102])


@case({"skipped-poll": (1, 0)})
def a_poll_leaves_a_record_out(history: History) -> None:
    history.written([100, 101, 102])
    history.poll(0, [(0, 100), (2, 102)], (100, 110), assigned=True)
    history.final([100, 101, 102])


@case({"skipped-poll": (1, 0)})
def an_empty_poll_does_not_hide_a_skip(history: History) -> None:
    history.written([100, 101, 102])
    history.poll(0, [100], (100, 110), assigned=True)
    history.poll(1, [], (112, 115), node=None)
    history.poll(2, [102], (120, 130))
    history.final([100, 101, 102])


@case({})
def a_reader_jumps_by_a_seek(history: History) -> None:
    history.written([100, 101, 102])
    history.poll(0, [100], (100, 110), assigned=True)
    history.poll(2, [102], (120, 130), assigned=True)
    history.final([100, 101, 102])


@case({})
def after_a_poll_of_unknown_outcome_a_jump_proves_nothing(history: History) -> None:
    history.written([100, 101, 102])
    history.poll(0, [100], (100, 110), assigned=True)
    history.poll(1, [], (112, None), status="info")
    history.poll(2, [102], (120, 130))
    history.final([100, 101, 102])


# --- replicas ------------------------------------------------------------------------------------------------------


@case({})
def replicas_that_agree(history: History) -> None:
    history.written([100, 101])
    for broker in (1, 2, 3):
        history.log(broker, [100, 101])
    history.final([100, 101])


@case({"divergent-replicas": (1, 0)})
def a_replica_holds_another_value(history: History) -> None:
    history.written([100, 101])
    history.log(1, [100, 101], epochs=[0, 1])
    history.log(2, [100, 999], epochs=[0, 2])
    history.final([100, 101])


@case({"divergent-replicas": (1, 0), "two-leaders": (1, 0)})
def two_values_of_one_epoch_are_of_two_leaders(history: History) -> None:
    history.written([100, 101])
    history.log(1, [100, 101])
    history.log(2, [100, 999])
    history.final([100, 101])


@case({"two-leaders": (1, 0)})
def two_leaders_write_in_one_epoch_above_the_high_watermark(history: History) -> None:
    history.written([100])
    history.log(1, [100, 101], high_watermark=1)
    history.log(2, [100, 999], high_watermark=1)
    history.final([100])


@case({"two-leaders": (1, 0)})
def two_brokers_lead_in_one_epoch(history: History) -> None:
    history.sampled(5, 1, 3, brokers=(1,))
    history.sampled(5, 2, 3, brokers=(2,))
    history.written([100])
    history.final([100])


@case({})
def two_brokers_lead_at_once_in_different_epochs(history: History) -> None:
    history.sampled(5, 1, 3, brokers=(1,))
    history.sampled(5, 2, 4, brokers=(2,))
    history.written([100])
    history.final([100])


@case({"epoch-regression": (2, 0)})
def the_epoch_goes_down_along_the_logs(history: History) -> None:
    history.written([100, 101, 102])
    history.log(1, [100, 101, 102], epochs=[1, 2, 1])
    history.log(2, [100, 101, 102], epochs=[1, 2, 1])
    history.final([100, 101, 102])


@case({})
def the_epoch_goes_up_along_the_logs(history: History) -> None:
    history.written([100, 101, 102])
    history.log(1, [100, 101, 102], epochs=[1, 2, 2])
    history.log(2, [100, 101, 102], epochs=[1, 2, 2])
    history.final([100, 101, 102])


@case({"epoch-regression": (1, 0)})
def the_epoch_goes_down_within_a_poll(history: History) -> None:
    history.written([100, 101, 102])
    history.poll(0, [100, 101, 102], (100, 110), assigned=True, epochs=[4, 4, 3])
    history.final([100, 101, 102])


@case({})
def the_epoch_may_go_down_between_polls(history: History) -> None:
    history.written([100, 101])
    history.poll(0, [100], (100, 110), assigned=True, epochs=[4])
    history.poll(1, [101], (120, 130), epochs=[3])
    history.final([100, 101])


@case({"corrupt-record": (1, 0)})
def a_replica_holds_bytes_that_were_never_sent(history: History) -> None:
    history.written([100])
    history.log(1, [100, None])
    history.log(2, [100, None], high_watermark=1)
    history.final([100], end=2)


@case({"divergent-replicas": (2, 0)})
def a_replica_holds_another_epoch(history: History) -> None:
    history.written([100, 101])
    history.log(1, [100, 101], epoch=1)
    history.log(2, [100, 101], epoch=2)
    history.final([100, 101])


@case({"divergent-replicas": (1, 0)})
def a_replica_has_a_hole(history: History) -> None:
    history.written([100, 101])
    history.log(1, [100, 101])
    history.log(2, [100], high_watermark=2)
    history.final([100, 101])


@case({})
def above_the_high_watermarks_replicas_may_differ(history: History) -> None:
    history.written([100, 101])
    history.log(1, [100, 101, 102], high_watermark=2, epochs=[0, 0, 1])
    history.log(2, [100, 101, 103], high_watermark=2, epochs=[0, 0, 2])
    history.log(3, [100], high_watermark=1)
    history.final([100, 101])


@case({})
def a_log_may_start_later_than_another(history: History) -> None:
    history.written([100, 101])
    history.log(1, [100, 101])
    history.log(2, [101], first=1)
    history.final([100, 101])


# --- availability --------------------------------------------------------------------------------------------------


def _attempts(history: History, status: str) -> None:
    for begins in range(0, BOUND_MS + 400, 100):
        history.send(1_000 + begins, (600 + begins, 680 + begins), status=status, offset=None)


@case({"unavailable": (1, 0)})
def no_write_succeeds_after_the_last_heal(history: History) -> None:
    history.fault("kill", [1], (100, 500))
    _attempts(history, "info")
    history.final([])


@case({})
def one_write_succeeds_after_the_last_heal(history: History) -> None:
    history.fault("kill", [1], (100, 500))
    _attempts(history, "info")
    history.send(100, (700, 800), offset=0, process=2)
    history.final([100])


@case({})
def writes_that_stop_early_prove_no_unavailability(history: History) -> None:
    history.fault("kill", [1], (100, 500))
    history.send(100, (600, 680), status="info")
    history.final([])


@case({}, verdict="unknown")
def a_fault_that_was_not_healed_excuses_unavailability(history: History) -> None:
    history.fault("kill", [1], (100, 500), healed=False)
    _attempts(history, "info")
    history.final([])


@case({"unavailable": (1, 0)})
def a_reader_gets_nothing_after_the_last_heal(history: History) -> None:
    history.written([100, 101])
    history.poll(0, [100], (60, 70), assigned=True)
    history.fault("kill", [1], (100, 500))
    for begins in range(600, BOUND_MS + 900, 100):
        history.operation("poll", (begins, begins + 80), process=READER, status="fail", phase="main", node=None)
    history.final([100, 101])


@case({})
def a_reader_that_has_read_everything_waits_in_vain(history: History) -> None:
    history.written([100, 101])
    history.poll(0, [100, 101], (60, 70), assigned=True)
    history.fault("kill", [1], (100, 500))
    for begins in range(600, BOUND_MS + 900, 100):
        history.operation("poll", (begins, begins + 80), process=READER, status="fail", phase="main", node=None)
    history.final([100, 101])


@case({"unavailable": (1, 0)})
def the_isr_stays_small(history: History) -> None:
    history.written([100])
    history.fault("kill", [1], (100, 500))
    for at in range(600, BOUND_MS + 900, 100):
        history.sampled(at, 2, 1, isr=(2, 3))
    history.final([100])


@case({})
def the_isr_is_full_in_time(history: History) -> None:
    history.written([100])
    history.fault("kill", [1], (100, 500))
    for at in range(600, BOUND_MS + 900, 100):
        history.sampled(at, 2, 1, isr=(1, 2, 3) if at > 1_000 else (2, 3))
    history.final([100])


@case({"unavailable": (1, 0)})
def the_isr_is_full_too_late(history: History) -> None:
    history.written([100])
    history.fault("kill", [1], (100, 500))
    for at in range(600, BOUND_MS + 1_500, 100):
        history.sampled(at, 2, 1, isr=(1, 2, 3) if at > BOUND_MS + 600 else (2, 3))
    history.final([100])


# --- nodes that did not come back ----------------------------------------------------------------------------------


def _healthy(history: History, count: int = 120) -> None:
    values = list(range(100, 100 + count))
    history.written(values)
    history.final(values)


@case({"node-lost": (1, 0)})
def a_node_does_not_start_after_a_page_cache_loss(history: History) -> None:
    _healthy(history)
    history.fault("page-cache-loss", [2], (100, 500), healed=False)
    history.loss(2, 500, "IOException: bootstrap.checkpoint is empty")


@case({"node-lost": (1, 0)})
def a_node_ends_that_no_fault_had_hit(history: History) -> None:
    _healthy(history)
    history.fault("disk-loss", [3], (100, 500))
    history.fault("bit-flip", [2], (700, 800))
    history.loss(2, 600)


@case({"node-lost": (0, 1)})
def a_node_need_not_start_with_a_damaged_disk_whatever_came_between(history: History) -> None:
    _healthy(history)
    history.fault("bit-flip", [2], (100, 500))
    history.fault("kill", [2], (600, 700), healed=False)
    history.loss(2, 700)


@case({"node-lost": (1, 1)})
def a_system_may_except_kinds_of_fault(history: History) -> None:
    _healthy(history)
    history.fault("page-cache-loss", [2, 3], (100, 500), healed=False)
    history.loss(2, 500, exempt=["page-cache-loss"])
    history.loss(3, 500)


@case({"node-lost": (0, 1)}, verdict="unknown")
def another_node_that_was_not_seen_to_heal_leaves_the_verdict_open(history: History) -> None:
    _healthy(history)
    history.fault("disk-loss", [2, 3], (100, 500), healed=False)
    history.loss(2, 500)


@case({"node-lost": (0, 1)})
def a_cluster_that_lacks_a_node_within_the_contract_need_not_have_full_isrs(history: History) -> None:
    _healthy(history)
    history.fault("disk-loss", [3], (100, 500))
    history.loss(3, 600)
    for at in range(600, BOUND_MS + 900, 100):
        history.sampled(at, 2, 1, isr=(1, 2))


# --- the history itself --------------------------------------------------------------------------------------------


def _malformed(rows: int) -> Expected:
    return {"malformed-history": (0, rows)}


@case(_malformed(1), verdict="unknown")
def an_operation_ends_before_it_begins(history: History) -> None:
    history.send(100, (30, 20), offset=0)
    history.final([100])


@case(_malformed(1), verdict="unknown")
def an_operation_has_an_unknown_status(history: History) -> None:
    history.send(100, (10, 20), status="perhaps", offset=0)
    history.final([100])


@case(_malformed(1), verdict="unknown")
def an_operation_number_is_used_twice(history: History) -> None:
    history.written([100])
    history.row("operations", **{**history.tables["operations"][-1], "process": 77})
    history.final([100])


@case(_malformed(1), verdict="unknown")
def a_value_is_sent_twice(history: History) -> None:
    history.written([100])
    history.send(100, (30, 40), offset=1, process=2)
    history.final([100])


@case(_malformed(3), verdict="unknown")
def rows_belong_to_no_operation(history: History) -> None:
    history.row("sends", op=77, topic=TOPIC, partition=0, value=100, acks=-1, offset=0, ordinal=0)
    history.row("polls", op=78, topic=TOPIC, partition=0, position=0, next_position=1, records=1, assigned=True)
    history.row("reads", op=78, topic=TOPIC, partition=0, offset=0, value=100, ordinal=0)
    history.final([100])


@case({**_malformed(1), "lost-acked-write": (1, 0)})
def what_is_not_malformed_is_still_checked(history: History) -> None:
    history.written([100])
    history.row("operations", op=None, process=None, kind=None, status=None)
    history.final([])


@case(_malformed(1) | {"unseen": (0, 1)}, verdict="unknown")
def a_poll_that_lacks_its_records_shows_nothing(history: History) -> None:
    history.written([100])
    history.final([100])
    history.tables["reads"].clear()


@case(_malformed(2), verdict="unknown")
def a_fault_without_a_start(history: History) -> None:
    history.row("faults", fault=1, kind="kill", targets=[1], healed=True, took_hold=True)
    history.row("ends", topic=TOPIC, partition=3, end_offset=-1, agreed=True)
    history.final([])


@case({}, verdict="unknown", faults_wanted=True)
def faults_were_wanted_and_none_took_hold(history: History) -> None:
    history.fault("kill", [1], (100, 500), took_hold=False)
    history.final([])


@case({}, verdict="unknown")
def a_run_without_a_final_phase(history: History) -> None:
    history.final([])
    history.tables["phases"] = [row for row in history.tables["phases"] if row["phase"] != "final"]


@case({}, verdict="valid")
def an_absurd_offset_costs_nothing(history: History) -> None:
    history.send(100, (10, 20), offset=2**62)
    history.poll(0, [(2**62, 100)], (30, 40), assigned=True)
    history.final([(2**62, 100)])


# --- nonlinearizable -----------------------------------------------------------------------------------------------


@case({"nonlinearizable": (1, 0)})
def a_register_that_forgot_a_write(history: History) -> None:
    history.command(100, (10, 20), "write", 100)
    history.command(101, (30, 40), "write", 101)
    history.command(102, (50, 60), "read", result=100)


@case({})
def a_register_read_while_it_is_written(history: History) -> None:
    history.command(100, (10, 20), "write", 100)
    history.command(101, (30, 60), "write", 101)
    history.command(102, (40, 50), "read", result=100, process=2)
    history.command(103, (70, 80), "cas", [101, 103], result=True)
    history.command(104, (90, 99), "cas", [101, 104], result=False)
    history.final([])


@case({})
def a_register_whose_write_is_in_doubt(history: History) -> None:
    history.command(100, (10, None), "write", 100, status="info")
    history.command(101, (30, 40), "read", process=2)
    history.command(102, (50, 60), "read", result=100, process=2)
    history.final([])


@case({"nonlinearizable": (2, 0)})
def two_registers_that_swapped_for_two(history: History) -> None:
    for key in (1, 2):
        history.command(10 * key, (10, 20), "cas", [None, 10 * key], result=True, key=key)
        history.command(10 * key + 1, (30, 40), "cas", [None, 10 * key + 1], result=True, key=key)


@case({"nonlinearizable": (1, 0)})
def a_queue_that_gave_a_value_twice(history: History) -> None:
    history.command(100, (10, 20), "enqueue", 100, model="fifo-queue")
    history.command(101, (30, 40), "dequeue", result=100, model="fifo-queue")
    history.command(102, (50, 60), "dequeue", result=100, model="fifo-queue")


@case({})
def a_queue_that_was_empty(history: History) -> None:
    history.command(100, (10, 20), "enqueue", 100, model="fifo-queue")
    history.command(101, (30, 40), "dequeue", result=100, model="fifo-queue")
    history.command(102, (50, 60), "dequeue", model="fifo-queue")
    history.final([])


@case({"nonlinearizable": (0, 1)}, acks=0)
def a_register_over_producers_who_wait_for_nothing(history: History) -> None:
    history.command(100, (10, 20), "write", 100)
    history.command(101, (30, 40), "read")
    history.final([])


@case({"nonlinearizable": (0, 1)})
def a_register_whose_write_went_with_two_page_caches(history: History) -> None:
    history.sampled(5, 1, 0)
    history.command(100, (10, 20), "write", 100)
    history.fault("page-cache-loss", [1, 2], (100, 500))
    history.sampled(700, 3, 1)
    history.command(101, (800, 900), "read")
    history.final([])


@case({"nonlinearizable": (1, 0)})
def a_register_whose_write_went_with_one_page_cache(history: History) -> None:
    history.sampled(5, 1, 0)
    history.command(100, (10, 20), "write", 100)
    history.fault("page-cache-loss", [1], (100, 500))
    history.sampled(700, 3, 1)
    history.command(101, (800, 900), "read")
    history.final([])


@case({}, "unknown", workers=2)
def a_register_of_which_a_worker_is_missing(history: History) -> None:
    history.command(100, (10, 20), "read", result=5)


@case({"malformed-history": (0, 1)}, "unknown")
def a_register_with_a_command_that_makes_no_sense(history: History) -> None:
    history.command(100, (10, 20), "read", result=5)
    history.command(101, (20, 10), "write", 5)


@case({}, "unknown", spec='{"workload": "queue"}')
def a_queue_without_commands(history: History) -> None:
    history.final([])
