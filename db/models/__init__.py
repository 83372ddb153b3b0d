"""Every table."""

from db.models.audit import AuditRow
from db.models.base import Base
from db.models.cache import CacheEntry
from db.models.dataset import CostModelRow, Event, Record, Schedule, SketchRow
from db.models.fleet import ApiKey, Device, DeviceTime, EnrolledWorker, IdempotencyKey, ReportRefusal, TargetRow
from db.models.imports import RecordImport
from db.models.jobs import Batch, Evaluation, Family, Job, JobTag, JobTask, Round
from db.models.listings import Listing
from db.models.models import Model, ModelTask, WorkloadRow
from db.models.proposals import Proposal, ProposalSet

__all__ = [
    "ApiKey",
    "AuditRow",
    "Base",
    "Batch",
    "CacheEntry",
    "CostModelRow",
    "Device",
    "DeviceTime",
    "EnrolledWorker",
    "Evaluation",
    "Event",
    "Family",
    "IdempotencyKey",
    "Job",
    "JobTag",
    "JobTask",
    "Listing",
    "Model",
    "ModelTask",
    "Proposal",
    "ProposalSet",
    "Record",
    "RecordImport",
    "ReportRefusal",
    "Round",
    "Schedule",
    "SketchRow",
    "TargetRow",
    "WorkloadRow",
]
