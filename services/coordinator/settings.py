"""The coordinator's settings: environment variables ``TUNESMITH_*``."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import secrets

from pydantic import Field, SecretStr, field_validator

from db.engine import sqlite_url
from services.coordinator.housekeeping import Retention
from services.rates import Rate
from tunesmith.data_folder import DATABASE
from tunesmith.errors import InvalidInput
from tunesmith.settings import Names, SharedSettings

GIB = 1 << 30


class Settings(SharedSettings):
    """One per process; every field is the environment variable ``TUNESMITH_<FIELD>``."""

    coordinator_url: str = Field(
        "http://127.0.0.1:8700", description="Address under which measure workers fetch blobs from the coordinator."
    )
    secret_key: SecretStr | None = Field(
        None, description="Signs blob URLs; default: made once and kept in `secret_key` in the data folder."
    )
    admin_key: SecretStr | None = Field(
        None, description="First API key, for an operator. When set, every route under `/v1` requires a key."
    )
    public_url: str = Field(
        "",
        pattern=r"^(https?://[^/?#\s]+/?)?$",
        description="Address under which browsers reach the coordinator "
        "through a proxy, such as `https://tune.example`; with `https` every cookie is `Secure`.",
    )
    trusted_proxies: str = Field(
        "127.0.0.1",
        description="Addresses or networks of proxies, comma-separated, whose `X-Forwarded-For` and "
        "`X-Forwarded-Proto` are believed.",
    )
    worker_keys: Names = Field(
        (), description="Public keys of measure workers that are enrolled at the start, separated by commas."
    )
    unavailable: Names = Field(
        (),
        description="Searchers and cost models that no worker of this service can run, separated by commas: jobs "
        "that ask for them are refused. `tunesmith up` finds them out.",
    )
    enrolment_key: SecretStr | None = Field(
        None, description="A first key of scope `worker`, with which measure workers enrol and do nothing else."
    )
    host: str = Field("127.0.0.1", description="Address to listen on; other than loopback only with an admin key.")
    port: int = Field(8700, ge=0, le=65535, description="Port to listen on.")
    max_upload_bytes: int = Field(2 * GIB, gt=0, description="Largest model that is accepted.")
    max_open_jobs: int = Field(
        1000, ge=1, description="Unfinished jobs that one user may have; a further one is refused."
    )
    imports_per_user: int = Field(
        1,
        ge=1,
        description="Imports and preparations of jobs that one user may have with the importers at once; the "
        "others wait for their turn. Keep it below the number of importers.",
    )
    max_models: int = Field(
        1000, ge=0, description="Models that one owner may keep; 0: any number. Without an admin key any number, too."
    )
    max_stored_bytes: int = Field(
        200 * GIB,
        ge=0,
        description="Bytes of model files and of the weights found in them that one owner may keep; "
        "0: any number. Without an admin key any number, too.",
    )
    max_cache_entries: int = Field(
        2000, ge=0, description="Texts that one user may keep in the cache; older ones give way. 0: any number."
    )
    rate_limit: str = Field(
        "1200/minute",
        description="Requests of one key that each coordinator answers, such as `20/second`; one more "
        "gets 429 with `Retry-After`. Empty: no limit. Without an admin key there is none.",
    )
    wrong_key_limit: str = Field(
        "20/minute",
        description="Wrong keys from one address, or one IPv6 network, after which no further one is "
        "tried; the same for logins to the dashboard. Empty: no limit.",
    )
    claim_timeout: float = Field(
        15.0, gt=0, description="Seconds after which a message that nobody took is sent again."
    )
    blob_url_seconds: float = Field(6 * 3600.0, gt=0, description="Seconds for which a signed blob URL is valid.")
    write_timeout: float = Field(
        10.0, gt=0, description="Seconds that a request waits for its turn to write before it is answered with 503."
    )
    header_timeout: float = Field(20.0, gt=0, description="Seconds within which a request's headers must arrive.")
    body_timeout: float = Field(
        30.0,
        gt=0,
        description="Seconds that a request's body may bring nothing, or less than 1000 bytes a second.",
    )
    read_timeout: float = Field(
        30.0, gt=0, description="Seconds in which a client takes nothing of its answer, or stream, before it is let go."
    )
    max_connections: int = Field(4000, ge=1, description="Connections at a time; a further one is answered with 503.")
    max_connections_per_address: int = Field(2000, ge=1, description="The same for one address.")
    loop_seconds: float = Field(0.1, gt=0, description="Seconds between two passes of the scheduling loop.")
    keep_job_days: float = Field(
        0.0, ge=0, description="Days after its end until a job is removed; its records stay. 0: never."
    )
    keep_event_days: float = Field(
        0.0, ge=0, description="Days until events of jobs that are over are removed. 0: not before their jobs."
    )
    keep_blob_hours: float = Field(
        24.0, gt=0, description="Hours until a blob that no row names is removed; at least as long as its URL is good."
    )
    dashboard: bool = Field(True, description="Serve the web dashboard at `/`.")

    @field_validator("secret_key", "admin_key", "enrolment_key", mode="before")
    @classmethod
    def _empty_is_unset(cls, value: object) -> object:
        return None if value == "" else value

    @field_validator("rate_limit", "wrong_key_limit")
    @classmethod
    def _is_rate(cls, value: str) -> str:
        Rate(value)
        return value

    def dashboard_token(self) -> str:
        """By which the coordinator knows the dashboard's own client."""
        return hashlib.sha256(b"dashboard client" + self.signing_key()).hexdigest()

    def retention(
        self,
        *,
        job_days: float | None = None,
        event_days: float | None = None,
        blob_hours: float | None = None,
        records: bool = False,
    ) -> Retention:
        """How long things are kept: as set, except for what is given."""
        return Retention(
            self.keep_job_days if job_days is None else job_days,
            self.keep_event_days if event_days is None else event_days,
            max(self.keep_blob_hours, self.blob_url_seconds / 3600) if blob_hours is None else blob_hours,
            records,
        )

    def url(self) -> str:
        """The database's URL, default filled in."""
        return self.database_url or sqlite_url(self.data_dir.absolute() / DATABASE)

    def signing_key(self) -> bytes:
        """The key that signs blob URLs, made on first use and kept readable for this user only."""
        if self.secret_key is not None:
            return self.secret_key.get_secret_value().encode()
        path = self.data_dir / "secret_key"
        self.data_dir.mkdir(parents=True, exist_ok=True)
        fresh = secrets.token_hex(32)
        temporary = path.with_name(f".secret_key.{os.getpid()}")
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(fresh)
            os.link(temporary, path)  # fails when another process was first
        except FileExistsError:
            return path.read_text().strip().encode()
        finally:
            temporary.unlink(missing_ok=True)
        return fresh.encode()

    def check(self) -> None:
        """Refuse to listen on other than loopback without a key.

        Raises:
            InvalidInput: naming the remedy.
        """
        if self.admin_key is not None or is_loopback(self.host):
            return
        raise InvalidInput(
            f"TUNESMITH_HOST={self.host} is reachable from other machines and no key is set: set "
            "TUNESMITH_ADMIN_KEY to a long random string, such as the output of `openssl rand -hex 32`, or listen on "
            "127.0.0.1",
            field="host",
            value=self.host,
        )


def is_loopback(host: str) -> bool:
    """True for ``localhost`` and loopback addresses."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
