"""Latencies of a further measurement: a Parquet file of the records' hashes and seconds. Needs pyarrow.

The same programs may have been built for another processor than that of the records: then the file says for which.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tunesmith.dataset.parquet import arrow
from tunesmith.errors import InvalidInput, TunesmithError
from tunesmith.messages import Calibration
from tunesmith.targets import Target

HASH, SECONDS = "hash", "seconds"
"""Columns: the hash of a record's content in hexadecimal digits, and the latency."""
TARGET, CALIBRATION = b"tunesmith.target", b"tunesmith.calibration"
"""Where the file says what the programs were built for, and what a device of it can do."""


@dataclass(frozen=True)
class Processor:
    """Another processor than that of the records.

    Attributes:
        target: what programs were built for.
        calibration: what one such device can do.
    """

    target: Target
    calibration: Calibration


@dataclass(frozen=True)
class Again:
    """A further measurement.

    Attributes:
        latencies: seconds by the records' hashes.
        processor: where it was made; None: on that of the records.
    """

    latencies: Mapping[str, float]
    processor: Processor | None = None


def write(found: Again, path: Path) -> None:
    """Write latencies by the records' hashes; a hash is stored as its bytes."""
    pyarrow = arrow()
    order = sorted(found.latencies)
    columns = {
        HASH: pyarrow.array([bytes.fromhex(each) for each in order], pyarrow.binary(32)),
        SECONDS: pyarrow.array([found.latencies[each] for each in order], pyarrow.float32()),
    }
    about = {} if found.processor is None else _marks(found.processor)
    table = pyarrow.table(columns).replace_schema_metadata(about)
    pyarrow.parquet.write_table(table, path, compression="zstd", use_dictionary=False)


def _marks(processor: Processor) -> dict[bytes, bytes]:
    return {
        TARGET: processor.target.canonical.encode(),
        CALIBRATION: processor.calibration.model_dump_json().encode(),
    }


def read(path: Path) -> Again:
    """What a file holds.

    Raises:
        InvalidInput: the file is none of these.
    """
    pyarrow = arrow()
    try:
        table = pyarrow.parquet.read_table(path, columns=[HASH, SECONDS])
        found = zip(table[HASH].to_pylist(), table[SECONDS].to_pylist(), strict=True)
        latencies = {bytes(key).hex(): float(seconds) for key, seconds in found}
        processor = _processor(table.schema.metadata or {})
    except (OSError, ValueError, TypeError, KeyError, TunesmithError, pyarrow.ArrowException) as error:
        raise InvalidInput(
            f"{path.name} holds no latencies of a second measurement: {str(error)[:200]}",
            field="again",
            value=path.name,
        ) from error
    if not all(0 < seconds < float("inf") for seconds in latencies.values()):
        raise InvalidInput(f"{path.name} has a latency that is no positive number", field="again", value=path.name)
    return Again(latencies, processor)


def _processor(marks: Mapping[bytes, bytes]) -> Processor | None:
    if TARGET not in marks:
        return None
    target = Target(json.loads(marks[TARGET]))
    return Processor(target, Calibration.model_validate_json(marks[CALIBRATION]))
