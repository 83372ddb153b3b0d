"""The workers' settings: environment variables ``TUNESMITH_*``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr, field_validator

from tunesmith.data_folder import DATABASE
from tunesmith.host import default_lease_path
from tunesmith.messages import CORE_QUEUES
from tunesmith.settings import Names, SharedSettings

MEASURE = "measure"


class Settings(SharedSettings):
    """One per process; every field is the environment variable ``TUNESMITH_<FIELD>``."""

    reports_url: SecretStr | None = Field(
        None, description="The same Redis as another user, as whom a measure worker reports; default: the broker URL."
    )
    queues: Names = Field(
        CORE_QUEUES,
        description="Queues to serve, separated by commas: `ingest`, `search`, `train`, `record`, `measure` (every "
        "device class of the device) or `measure.<device class>`.",
    )
    concurrency: int = Field(1, ge=1, description="Tasks of the core queues that run at once.")
    lease_file: Path = Field(
        default_factory=default_lease_path,
        description="The host lease: nothing builds or searches while a kernel is timed. Default: one per user in "
        "the temporary folder.",
    )
    tracker: str = Field("127.0.0.1:9190", description="RPC tracker of the measure worker's device, host:port.")
    device_key: str = Field("", description="The device's key at the tracker; empty: the host's name and `-cpu`.")
    device_classes: Names = Field(
        (), description="Device classes that the measure worker serves, separated by commas; empty: its device's."
    )
    memory_share: float = Field(
        0.6,
        ge=0,
        le=1,
        description="Share of the host's memory that one process which builds or runs candidates may use, so that a "
        "candidate that allocates without end costs itself alone; 0: no limit.",
    )
    import_seconds: float = Field(600.0, gt=0, description="Seconds that the import of a model may take.")
    import_cpu_seconds: float = Field(
        600.0, ge=1, description="Seconds of processor time that the import of a model may use."
    )
    import_memory_share: float = Field(
        0.5, ge=0, le=1, description="Share of the host's memory that the import of a model may use; 0: no limit."
    )
    trust_models: bool = Field(
        False,
        description="Import models, and run candidates, without a box where the system offers none: for "
        "installations where everybody who uploads is trusted.",
    )
    calibration_interval: float = Field(
        30.0,
        gt=0,
        description="Seconds of use after which a device is checked against its calibration again; the "
        "first checks of a device come sooner.",
    )
    drift_limit: float = Field(
        0.1,
        gt=0,
        description="A device drifts when its calibration kernel's latency differs from the first by more "
        "than this share, and by more than its noise.",
    )
    quarantine_limit: float = Field(
        1.5,
        gt=1,
        description="Nothing is measured on a device whose calibration kernel takes this many times as "
        "long as at first, three checks in a row. `inf`: never mind.",
    )
    quarantine_seconds: float = Field(
        60.0,
        gt=0,
        description="A device that stays that slow for so long is measured on again, and compared with its new speed.",
    )
    device_failures: float = Field(
        3,
        ge=1,
        description="A device that failed so many times in a row, by no fault of candidates, gets no work for "
        "a while. `inf`: never mind.",
    )
    device_rest_seconds: float = Field(
        15.0,
        gt=0,
        description="Seconds of that while at first; it doubles, up to ten minutes, until it works.",
    )
    coordinator_url: str = Field(
        "http://127.0.0.1:8700", description="The coordinator's address, where a measure worker enrols itself."
    )
    enrolment_key: SecretStr | None = Field(
        None, description="A key of scope `worker`, with which a measure worker enrols itself at its start."
    )
    references: Names = Field(
        ("onnxruntime", "openvino", "torch"),
        description="Installed runtimes with which a measure worker times a model, in boxes, next to the tuned build, "
        "separated by commas; empty: none.",
    )
    simulate: bool = Field(False, description="The measure worker invents latencies and needs no device.")

    @field_validator("queues")
    @classmethod
    def _known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name not in (*CORE_QUEUES, MEASURE) and not name.startswith(f"{MEASURE}."):
                raise ValueError(f"no queue {name!r}: there are {', '.join(CORE_QUEUES)}, measure, measure.<class>")
        return value

    @property
    def core_queues(self) -> tuple[str, ...]:
        """The core queues to serve."""
        return tuple(name for name in self.queues if name in CORE_QUEUES)

    @property
    def measures(self) -> bool:
        """True when this worker measures."""
        return any(name == MEASURE or name.startswith(f"{MEASURE}.") for name in self.queues)

    def url(self) -> str:
        """The database's URL, default filled in."""
        from db.engine import sqlite_url  # here, because a measure worker has no use for the database's library

        return self.database_url or sqlite_url(self.data_dir.absolute() / DATABASE)
