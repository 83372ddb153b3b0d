"""Counts of programs' machine code: a Parquet file of the records' hashes and counts. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tunesmith.analysis.machine_code import COLUMNS, VERSION, Floats32
from tunesmith.dataset.parquet import arrow
from tunesmith.errors import InvalidInput

HASH = "hash"
"""Column of the hash of a record's content, as bytes; the others are the counts' own."""
MARK = b"tunesmith.code"
"""Where the file says which version the counts are of."""


def write(rows: Mapping[str, Floats32], path: Path) -> None:
    """Write rows of counts by the records' hashes."""
    pyarrow = arrow()
    order = sorted(rows)
    values = np.stack([rows[each] for each in order]) if order else np.zeros((0, len(COLUMNS)), np.float32)
    columns = {
        HASH: pyarrow.array([bytes.fromhex(each) for each in order], pyarrow.binary(32)),
        **{name: pyarrow.array(values[:, at], pyarrow.float32()) for at, name in enumerate(COLUMNS)},
    }
    table = pyarrow.table(columns).replace_schema_metadata({MARK: VERSION.encode()})
    pyarrow.parquet.write_table(table, path, compression="zstd", use_dictionary=list(COLUMNS))


def read(path: Path) -> dict[str, Floats32]:
    """Rows of counts by the records' hashes.

    Raises:
        InvalidInput: the file is none of these.
    """
    pyarrow = arrow()
    try:
        table = pyarrow.parquet.read_table(path, columns=[HASH, *COLUMNS])
        made = (table.schema.metadata or {}).get(MARK, b"").decode()
        if made != VERSION:
            raise ValueError(f"they are of {made or 'no version'}, not of {VERSION}")
        keys = [bytes(key).hex() for key in table[HASH].to_pylist()]
        values = np.stack([table[name].to_numpy() for name in COLUMNS], axis=1).astype(np.float32)
    except (OSError, ValueError, TypeError, KeyError, pyarrow.ArrowException) as error:
        raise InvalidInput(
            f"{path.name} holds no counts of machine code: {str(error)[:200]}", field="code", value=path.name
        ) from error
    if (values < 0).any():
        raise InvalidInput(f"{path.name} has a negative count", field="code", value=path.name)
    return dict(zip(keys, values, strict=True))
