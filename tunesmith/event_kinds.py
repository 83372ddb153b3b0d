"""Kinds of events."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from tunesmith.states import NOUNS


class EventKind(str, Enum):
    """Every kind, by the name that is stored and that REST shows.

    Each noun of ``tunesmith.states.NOUNS`` has one for each of its states, and ``<noun>_retried``. Those that code
    names are written out.
    """

    _ignore_ = "_noun _what"

    CHALLENGER_REJECTED = "challenger_rejected"
    CHAMPION_ADOPTED = "champion_adopted"
    CHAMPION_REVOKED = "champion_revoked"
    CLOCK_MOVED = "clock_moved"
    COST_MODEL_DONE = "cost_model_done"
    COST_MODEL_QUEUED = "cost_model_queued"
    DEVICE_HEALTH = "device_health"
    DEVICE_JOINED = "device_joined"
    DEVICE_LEFT = "device_left"
    EVALUATION_DONE = "evaluation_done"
    EVALUATION_QUEUED = "evaluation_queued"
    JOB_CHANGED = "job_changed"
    JOB_CLOCK_STARTED = "job_clock_started"
    JOB_CLOCK_STOPPED = "job_clock_stopped"
    JOB_DELETED = "job_deleted"
    JOB_QUEUED = "job_queued"
    JOB_RUNNING = "job_running"
    MESSAGE_UNREADABLE = "message_unreadable"
    MODEL_DELETED = "model_deleted"
    MODEL_IMPORTING = "model_importing"
    NEW_BEST = "new_best"
    PRECISION_CHOSEN = "precision_chosen"
    PROPOSAL_SET_DONE = "proposal_set_done"
    PROPOSAL_SET_QUEUED = "proposal_set_queued"
    RECORD_IMPORT_QUEUED = "record_import_queued"
    RECORDS_REVOKED = "records_revoked"
    REPORT_REFUSED = "report_refused"
    ROUND_FINISHED = "round_finished"
    ROUND_OPENED = "round_opened"
    TASK_EXHAUSTED = "task_exhausted"
    WORKER_ENROLLED = "worker_enrolled"
    WORKER_REVOKED = "worker_revoked"

    for _noun in NOUNS:
        for _what in (*(state.value for state in NOUNS[_noun]), "retried"):
            if f"{_noun}_{_what}".upper() not in vars():
                vars()[f"{_noun}_{_what}".upper()] = f"{_noun}_{_what}"


FORMER_NAMES: Mapping[str, str] = {EventKind.CHALLENGER_REJECTED.value: "crown_refused"}
"""What stored events and REST called a kind until version 0.1; REST shows it as ``formerly`` for one minor version."""
