"""The workers' settings: environment variables ``TUNESMITH_*``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from tunesmith.data_folder import DATABASE, UMASK, UMASK_HELP, resolve
from tunesmith.host import default_lease_path
from tunesmith.messages import CORE_QUEUES

MEASURE = "measure"


class Settings(BaseSettings):
    """One per process; every field is the environment variable ``TUNESMITH_<FIELD>``."""

    model_config = SettingsConfigDict(env_prefix="TUNESMITH_", extra="ignore")

    data_dir: Path = Field(Path(".tunesmith"), description="Folder of the database, blobs and logs.")
    database_url: str = Field("", description="SQLAlchemy URL; empty: an SQLite file in the data folder.")
    broker_url: SecretStr = Field(
        SecretStr("redis://127.0.0.1:6379/0"), description="Redis that carries the Celery messages."
    )
    reports_url: SecretStr | None = Field(
        None, description="The same Redis as another user, as whom a measure worker reports; default: the broker URL."
    )
    blob_dir: Path | None = Field(None, description="Folder of the blobs; default: `blobs` in the data folder.")
    queues: Annotated[tuple[str, ...], NoDecode] = Field(
        CORE_QUEUES,
        description="Queues to serve, separated by commas: `ingest`, `search`, `train`, `record`, `measure` (every "
        "device class of the device) or `measure.<device class>`.",
    )
    concurrency: int = Field(1, ge=1, description="Tasks of the core queues that run at once.")
    work_timeout: float = Field(
        45.0, gt=0, description="Seconds without a heartbeat after which work is handed out again."
    )
    ingest_timeout: float = Field(300.0, gt=0, description="The same for imports and for preparing a job.")
    max_attempts: int = Field(3, ge=1, description="Attempts before work counts as failed.")
    device_timeout: float = Field(
        15.0, gt=0, description="Seconds without a heartbeat after which a device counts as gone."
    )
    lease_file: Path = Field(
        default_factory=default_lease_path,
        description="The host lease: nothing builds or searches while a kernel is timed. Default: one per user in "
        "the temporary folder.",
    )
    tracker: str = Field("127.0.0.1:9190", description="RPC tracker of the measure worker's device, host:port.")
    device_key: str = Field("", description="The device's key at the tracker; empty: the host's name and `-cpu`.")
    device_classes: Annotated[tuple[str, ...], NoDecode] = Field(
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
    references: Annotated[tuple[str, ...], NoDecode] = Field(
        ("onnxruntime", "openvino", "torch"),
        description="Runtimes, as far as they are installed, that a measure worker times a model with beside the tuned "
        "one, in boxes, separated by commas; empty: none.",
    )
    simulate: bool = Field(False, description="The measure worker invents latencies and needs no device.")
    umask: str = Field(UMASK, pattern="^0?[0-7]{3}$", description=UMASK_HELP)
    log_level: str = Field("info", description="Lowest level that is logged.")

    @field_validator("data_dir")
    @classmethod
    def _filled_in(cls, value: Path) -> Path:
        return resolve(value)

    @field_validator("queues", "device_classes", "references", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

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

    def blobs(self) -> Path:
        """The blobs' folder, default filled in."""
        return self.blob_dir or self.data_dir / "blobs"
