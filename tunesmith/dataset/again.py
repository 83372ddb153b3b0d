"""Latencies of a second measurement: a Parquet file of the records' hashes and seconds. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tunesmith.dataset.parquet import arrow
from tunesmith.errors import InvalidInput

HASH, SECONDS = "hash", "seconds"
"""Columns: the hash of a record's content in hexadecimal digits, and the latency."""


def write(latencies: Mapping[str, float], path: Path) -> None:
    """Write latencies by the records' hashes; a hash is stored as its bytes."""
    pyarrow = arrow()
    order = sorted(latencies)
    columns = {
        HASH: pyarrow.array([bytes.fromhex(each) for each in order], pyarrow.binary(32)),
        SECONDS: pyarrow.array([latencies[each] for each in order], pyarrow.float32()),
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), path, compression="zstd", use_dictionary=False)


def read(path: Path) -> dict[str, float]:
    """Latencies in seconds by the records' hashes.

    Raises:
        InvalidInput: the file is none of these.
    """
    pyarrow = arrow()
    try:
        table = pyarrow.parquet.read_table(path, columns=[HASH, SECONDS])
        found = zip(table[HASH].to_pylist(), table[SECONDS].to_pylist(), strict=True)
        latencies = {bytes(key).hex(): float(seconds) for key, seconds in found}
    except (OSError, ValueError, TypeError, KeyError, pyarrow.ArrowException) as error:
        raise InvalidInput(
            f"{path.name} holds no latencies of a second measurement: {str(error)[:200]}",
            field="again",
            value=path.name,
        ) from error
    if not all(0 < seconds < float("inf") for seconds in latencies.values()):
        raise InvalidInput(f"{path.name} has a latency that is no positive number", field="again", value=path.name)
    return latencies
