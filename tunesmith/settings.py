"""Settings that the coordinator and the workers share; only they import this, for the light wheel lacks its library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from tunesmith.data_folder import UMASK, UMASK_HELP, resolve


def _split(value: Any) -> Any:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
"""Several values, separated by commas in the environment."""


class SharedSettings(BaseSettings):
    """Every field is the environment variable ``TUNESMITH_<FIELD>``."""

    model_config = SettingsConfigDict(env_prefix="TUNESMITH_", extra="ignore")

    data_dir: Path = Field(Path(".tunesmith"), description="Folder of the database, blobs, secret key and logs.")
    database_url: str = Field("", description="SQLAlchemy URL; empty: an SQLite file in the data folder.")
    broker_url: SecretStr = Field(
        SecretStr("redis://127.0.0.1:6379/0"), description="Redis that carries the Celery messages."
    )
    blob_dir: Path | None = Field(None, description="Folder of the blobs; default: `blobs` in the data folder.")
    work_timeout: float = Field(
        45.0, gt=0, description="Seconds without a heartbeat after which work is handed out again."
    )
    ingest_timeout: float = Field(300.0, gt=0, description="The same for imports and for preparing a job.")
    max_attempts: int = Field(3, ge=1, description="Attempts before work counts as failed.")
    device_timeout: float = Field(
        15.0, gt=0, description="Seconds without a heartbeat after which a device or a core worker counts as gone."
    )
    umask: str = Field(UMASK, pattern="^0?[0-7]{3}$", description=UMASK_HELP)
    log_level: str = Field("info", description="Lowest level that is logged.")

    @field_validator("data_dir")
    @classmethod
    def _filled_in(cls, value: Path) -> Path:
        return resolve(value)

    @field_validator("blob_dir", mode="before")
    @classmethod
    def _default_folder(cls, value: object) -> object:
        return None if value == "" else value

    def blobs(self) -> Path:
        """The blobs' folder, default filled in."""
        return self.blob_dir or self.data_dir / "blobs"
