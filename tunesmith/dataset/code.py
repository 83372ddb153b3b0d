"""Counts of programs' machine code: a Parquet file of the records' keys and counts. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tunesmith.analysis.machine_code import COLUMNS, VERSION, Floats32
from tunesmith.dataset.parquet import arrow
from tunesmith.errors import InvalidInput

KEY, KEY_BYTES = "key", 16
"""Column of the records' keys, and their length: bytes of a hash do not compress, and half of them suffice."""
MARK = b"tunesmith.code"
"""Where the file says which version the counts are of."""
LEVEL = 19
"""Level of zstd: the files are a tenth smaller than by its default."""


def key(content: str) -> str:
    """A record's key: the first bytes of the hash of its content, in hexadecimal digits."""
    return content[: 2 * KEY_BYTES]


def write(rows: Mapping[str, Floats32], path: Path) -> None:
    """Write rows of counts by the records' keys; NaN is stored as nothing."""
    pyarrow = arrow()
    order = sorted(rows)
    values = np.stack([rows[each] for each in order]) if order else np.zeros((0, len(COLUMNS)), np.float32)
    columns = {
        KEY: pyarrow.array([bytes.fromhex(each) for each in order], pyarrow.binary(KEY_BYTES)),
        **{name: pyarrow.array(values[:, at], pyarrow.int32(), from_pandas=True) for at, name in enumerate(COLUMNS)},
    }
    table = pyarrow.table(columns).replace_schema_metadata({MARK: VERSION.encode()})
    split = dict.fromkeys(COLUMNS, "BYTE_STREAM_SPLIT")
    pyarrow.parquet.write_table(
        table, path, compression="zstd", compression_level=LEVEL, use_dictionary=False, column_encoding=split
    )


def read(path: Path) -> dict[str, Floats32]:
    """Rows of counts by the records' keys.

    Raises:
        InvalidInput: the file is none of these.
    """
    pyarrow = arrow()
    try:
        table = pyarrow.parquet.read_table(path, columns=[KEY, *COLUMNS])
        made = (table.schema.metadata or {}).get(MARK, b"").decode()
        if made != VERSION:
            raise ValueError(f"they are of {made or 'no version'}, not of {VERSION}")
        keys = [bytes(each).hex() for each in table[KEY].to_pylist()]
        values = np.stack([table[name].to_numpy() for name in COLUMNS], axis=1).astype(np.float32)
    except (OSError, ValueError, TypeError, KeyError, pyarrow.ArrowException) as error:
        raise InvalidInput(
            f"{path.name} holds no counts of machine code: {str(error)[:200]}", field="code", value=path.name
        ) from error
    if (values < 0).any():
        raise InvalidInput(f"{path.name} has a negative count", field="code", value=path.name)
    return dict(zip(keys, values, strict=True))
