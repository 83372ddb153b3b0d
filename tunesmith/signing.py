"""Who a report is from: measure workers sign what they send with a key of their own (Ed25519, RFC 8032).

The private key is made at the worker and stays in its data folder. The service knows the public key, and a worker is
named by it: its id is the start of the public key's SHA-256.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import threading
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tunesmith.errors import InvalidInput, NotEnrolled
from tunesmith.messages import Message, SignedReport

KEY_FILE = "worker_key"
LIVES_FILE = "worker_lives"
LIFE_BITS = 32
PREFIX = b"tunesmith.report/1\0"


def worker_id(public_key: str) -> str:
    """The id of the worker that has a public key (base64)."""
    return hashlib.sha256(decode_key(public_key)).hexdigest()[:32]


def decode_key(public_key: str) -> bytes:
    """The 32 bytes of a public key in base64.

    Raises:
        InvalidInput: it is none.
    """
    try:
        raw = base64.b64decode(public_key, validate=True)
        Ed25519PublicKey.from_public_bytes(raw)
    except ValueError as error:
        raise InvalidInput(
            "public_key is the base64 of the 32 bytes of an Ed25519 public key", field="public_key", value=public_key
        ) from error
    return raw


class Signer:
    """Signs a worker's reports, each with a number that only grows, over restarts too.

    Args:
        key: the worker's key.
        life: how often the worker's folder was used to sign, this time included.
    """

    def __init__(self, key: Ed25519PrivateKey, life: int = 1) -> None:
        self._key, self._next, self._guard = key, life << LIFE_BITS, threading.Lock()
        self.public_key = base64.b64encode(key.public_key().public_bytes_raw()).decode()
        self.worker = worker_id(self.public_key)

    @classmethod
    def fresh(cls) -> Signer:
        """With a key that is kept nowhere."""
        return cls(Ed25519PrivateKey.generate())

    def sign(self, message: Message) -> SignedReport:
        """The message with its signature."""
        with self._guard:
            self._next += 1
            sequence = self._next
        body = message.model_dump_json()
        signature = self._key.sign(signed_bytes(message.task, self.worker, sequence, body))
        return SignedReport(
            worker=self.worker, sequence=sequence, body=body, signature=base64.b64encode(signature).decode()
        )


def signed_bytes(task: str, worker: str, sequence: int, body: str) -> bytes:
    """What is signed: which task, whose, the how manieth, and the exact text."""
    return PREFIX + f"{task}\0{worker}\0{sequence}\0".encode() + body.encode()


def verified(report: SignedReport, task: str, public_key: str) -> bool:
    """True when the holder of the key that belongs to ``public_key`` signed the report for this task."""
    try:
        signature = base64.b64decode(report.signature, validate=True)
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key))
        key.verify(signature, signed_bytes(task, report.worker, report.sequence, report.body))
    except (InvalidSignature, ValueError):
        return False
    return True


def ensure_key(folder: Path) -> str:
    """The public key of a folder's worker, whose private key is made when there is none.

    The file is readable for this user only.
    """
    path = folder / KEY_FILE
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{KEY_FILE}.{os.getpid()}")
    raw = Ed25519PrivateKey.generate().private_bytes_raw()
    temporary.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(base64.b64encode(raw) + b"\n")
        os.link(temporary, path)  # fails when there is a key, or another process was first
    except FileExistsError:
        pass
    finally:
        temporary.unlink(missing_ok=True)
    return Signer(_load(path)).public_key


def has_key(folder: Path) -> bool:
    """True when the folder's worker has a key."""
    return (folder / KEY_FILE).exists()


def load_signer(folder: Path) -> Signer:
    """The signer of a folder's worker, for one life of it.

    Raises:
        NotEnrolled: the worker has no key.
    """
    if not has_key(folder):
        raise not_enrolled(folder)
    return Signer(_load(folder / KEY_FILE), _next_life(folder))


def not_enrolled(folder: Path) -> NotEnrolled:
    """The error of a worker without a key."""
    path = folder / KEY_FILE
    return NotEnrolled(
        f"this measure worker has no key in {path}: enrol it with `tunesmith worker enrol --server URL`, once",
        value=str(path),
    )


def _load(path: Path) -> Ed25519PrivateKey:
    try:
        return Ed25519PrivateKey.from_private_bytes(base64.b64decode(path.read_bytes().strip(), validate=True))
    except ValueError as error:
        raise InvalidInput(
            f"{path} contains no key: remove it and enrol the worker again", field="data_dir", value=str(path)
        ) from error


def _next_life(folder: Path) -> int:
    """Count one more life; several processes may share a folder."""
    with os.fdopen(os.open(folder / LIVES_FILE, os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        text = file.read().strip()
        life = (int(text) if text.isdigit() else 0) + 1
        file.seek(0)
        file.truncate()
        file.write(str(life))
    return life
