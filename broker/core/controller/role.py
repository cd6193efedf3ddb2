"""Switches between active and standby as the quorum's role changes (§18.8)."""

from __future__ import annotations

from broker.core.configuration.in_force import in_force, layers
from broker.core.controller import changes, membership, recovery
from broker.core.controller.requests import configs, leader_elections, metadata_fetches
from broker.core.controller.state import ControllerState
from broker.core.ports.marks import sometimes
from broker.core.quorum import elections, replication, snapshots

ACTIVATED = sometimes("controller: a standby becomes active (QU-24)")
ACTIVATED_OVER_UNCOMMITTED = sometimes(
    "controller: a standby becomes active over records that were not committed (CT-2)"
)
DEPOSED = sometimes("controller: the active one becomes a standby (QU-24)")
DEPOSED_WITH_UNCOMMITTED = sometimes("controller: what the deposed one had decided is forgotten (QU-24)")
DEPOSED_WHILE_ASKED = sometimes("controller: deposed while answers waited for the commit (CT-1)")


def settle(controller: ControllerState) -> None:
    """After every event: become active or standby to match the quorum, apply and publish committed records."""
    quorum = controller.quorum
    present = (quorum.log.end_offset, quorum.high_watermark, quorum.epoch, quorum.leads)
    if present == controller.settled:
        return
    if quorum.leads and not controller.active:
        _activate(controller)
    elif controller.active and not quorum.leads:
        _step_down(controller)
    if not controller.active:
        snapshots.replay(controller.image, quorum, quorum.high_watermark)
    controller.settled = (quorum.log.end_offset, quorum.high_watermark, quorum.epoch, quorum.leads)
    leader_elections.recoveries_ended(controller)
    changes.committed(controller)
    metadata_fetches.wake(controller)
    replication.flush(quorum)
    _snapshot_if_due(controller)


def _activate(controller: ControllerState) -> None:
    """QU-24, CT-4: replay everything, give every broker a full session, and start serving."""
    quorum = controller.quorum
    controller.active = True
    controller.runtime.mark(ACTIVATED)
    if controller.image.end_offset < quorum.epoch_start:
        controller.runtime.mark(ACTIVATED_OVER_UNCOMMITTED)
    snapshots.replay(controller.image, quorum, quorum.log.end_offset)
    controller.last_contact_ms = {}
    controller.metadata_offsets = {}
    controller.shutdown_offsets = {}
    controller.recoveries = {}
    controller.timed_recoveries = {}
    controller.runtime.log(
        "info", f"active controller in epoch {quorum.epoch}, metadata log ends at {quorum.log.end_offset}"
    )
    membership.start_sessions(controller)
    configs.publish_min_isr(controller)
    recovery.consider_all(controller)
    leader_elections.start_balancing(controller)


def _step_down(controller: ControllerState) -> None:
    """QU-24: discard what is not committed."""
    quorum = controller.quorum
    controller.active = False
    controller.runtime.mark(DEPOSED)
    if controller.image.end_offset > quorum.high_watermark:
        controller.runtime.mark(DEPOSED_WITH_UNCOMMITTED)
    if controller.replies:
        controller.runtime.mark(DEPOSED_WHILE_ASKED)
    controller.runtime.log("info", f"standby controller in epoch {quorum.epoch}")
    changes.give_up(controller)
    leader_elections.give_up(controller)
    controller.recoveries = {}
    controller.timed_recoveries = {}
    controller.runtime.cancel_timer((membership.SESSIONS,))
    controller.runtime.cancel_timer((leader_elections.BALANCE,))
    controller.image = snapshots.replayed(quorum, quorum.high_watermark)


def adopt_settings(controller: ControllerState) -> None:
    """Put the settings that the metadata has for all nodes into force, as soon as the image has them."""
    of_all, own = layers(controller.image, None)
    if of_all == controller.adopted:
        return
    before = controller.settings
    controller.adopted = dict(of_all)
    controller.settings = in_force(controller.file, of_all, own)
    if (
        controller.active
        and controller.settings.leader_imbalance_check_interval_ms != before.leader_imbalance_check_interval_ms
    ):
        leader_elections.start_balancing(controller)


def _snapshot_if_due(controller: ControllerState) -> None:
    """QU-20: take a snapshot every so many records; an image with uncommitted ones gives none."""
    quorum = controller.quorum
    if controller.image.end_offset - quorum.snapshot_id[0] >= controller.settings.metadata_snapshot_records:
        snapshots.take(quorum, controller.image)


def stop(controller: ControllerState) -> bool:
    """Begin a controlled stop; returns whether the node may exit at once."""
    controller.stopping = True
    if not controller.quorum.leads or not controller.quorum.others:
        return True
    elections.end_epoch(controller.quorum)
    return False
