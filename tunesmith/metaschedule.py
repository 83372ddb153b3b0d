"""MetaSchedule's database files and the exported folder, without TVM.

The two files hold one JSON value a line: ``[hash, module]`` for a workload, and
``[workload index, [trace, run_secs, target, args]]`` for a tuning record.
"""

from __future__ import annotations

import base64
import functools
import json
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from tunesmith.types import TensorSpec

WORKLOAD_FILE = "database_workload.json"
RECORD_FILE = "database_tuning_record.json"
PREPARATION_FILE = "preparation.txt"
"""Holds the key of the preparation of the exported folder's module."""

_TEMPLATES = Path(str(resources.files("tunesmith"))) / "templates"
COMPILE_SCRIPT = _TEMPLATES / "compile.py"
"""The script of the exported folder: TVM, NumPy and the standard library."""
SCRIPTS = (COMPILE_SCRIPT, _TEMPLATES / "prefetch.py")
"""What compiles an exported folder, and what that reads beside itself."""
INTRINSICS_FILE = "intrinsics.json"
INTRINSICS = _TEMPLATES / INTRINSICS_FILE
"""TVM's JSON of the tensor intrinsics of Tunesmith's rules, by name: what each computes, and how. One that serves
several sizes has a list of these as a third part, and their names in braces in its own name and texts. One that
computes what another does has the name of that in the place of the first text."""
QUOTE, ESCAPED_QUOTE = "'", r"\""
"""What stands in that file of ours for a quotation mark within a string: a sixth of it would be backslashes."""
INTRINSIC = re.compile(r'"(ts_\w+)"')
"""The name of one of them in a trace."""
_README = _TEMPLATES / "README.md"
SIMULATED = """
**A simulated device took part: the latencies in this database are invented, and nothing says that its schedules are
fast.**
"""


@dataclass(frozen=True)
class DatabaseRecord:
    """One tuning record.

    Attributes:
        workload: MetaSchedule's ``Workload.as_json()``: structural hash and encoded module.
        trace: MetaSchedule's trace, ``[instructions, decisions]``.
        run_seconds: measured latencies.
        target: the target's JSON object.
        args: the workload's arguments, output last.
    """

    workload: tuple[str, str]
    trace: list[Any]
    run_seconds: tuple[float, ...]
    target: Mapping[str, Any]
    args: tuple[TensorSpec, ...]

    @property
    def hash(self) -> str:
        """The workload's structural hash."""
        return self.workload[0]


def intrinsics(wanted: Container[str]) -> dict[str, list[str]]:
    """The tensor intrinsics of Tunesmith's rules that are wanted: by name, what each computes and how."""
    known, found = _known_intrinsics(), {}
    for name, (what, how, *sizes) in known.items():
        what = known[what][0] if what in known else what
        for values in sizes[0] if sizes else [{}]:
            if (sized := _sized(name, values)) in wanted:
                found[sized] = [_sized(what, values), _sized(how, values)]
    return found


@functools.cache
def _known_intrinsics() -> dict[str, list[Any]]:
    return dict(json.loads(INTRINSICS.read_text(encoding="utf-8").replace(QUOTE, ESCAPED_QUOTE)))


def _sized(text: str, values: Mapping[str, int]) -> str:
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


def encoded(module: str) -> str:
    """The JSON of a module as MetaSchedule's workloads hold it: its length in eight bytes and its text, in base 64."""
    text = module.encode()
    return base64.b64encode(len(text).to_bytes(8, "little") + text).decode()


def decoded(module: str) -> str:
    """Inverse of :func:`encoded`."""
    return base64.b64decode(module)[8:].decode()


def database_texts(records: Sequence[DatabaseRecord]) -> tuple[str, str]:
    """The contents of ``database_workload.json`` and ``database_tuning_record.json``.

    Raises:
        ValueError: for records of two targets: TVM ignores a record's target when it looks one up.
    """
    if len({_compact(r.target) for r in records}) > 1:
        raise ValueError("a MetaSchedule database holds one target; write one folder per target")
    places: dict[str, int] = {}
    workloads, lines = [], []
    for record in records:
        if record.hash not in places:
            places[record.hash] = len(places)
            workloads.append(_compact(list(record.workload)))
        args = [["TENSOR", a.dtype, list(a.shape)] for a in record.args]
        body = [record.trace, list(record.run_seconds), dict(record.target), args]
        lines.append(_compact([places[record.hash], body]))
    return "".join(f"{w}\n" for w in workloads), "".join(f"{line}\n" for line in lines)


def database_files(records: Sequence[DatabaseRecord]) -> dict[str, str]:
    """Both files by name, and one with the intrinsics that the traces name."""
    workloads, lines = database_texts(records)
    return {WORKLOAD_FILE: workloads, RECORD_FILE: lines, **_intrinsics(lines)}


def write_database(folder: str | Path, records: Sequence[DatabaseRecord]) -> None:
    """Write both files into ``folder``, which is made when missing, and the intrinsics that the traces name."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in database_files(records).items():
        (folder / name).write_text(text, encoding="utf-8")


def read_database(folder: str | Path) -> list[DatabaseRecord]:
    """The records of a MetaSchedule database, in their order.

    Raises:
        ValueError: when a file is not in MetaSchedule's format; the message names file and line.
        FileNotFoundError: when one is missing.
    """
    workloads = [(str(w[0]), str(w[1])) for w in _lines(Path(folder) / WORKLOAD_FILE, 2)]
    records = []
    for index, body in _lines(Path(folder) / RECORD_FILE, 2):
        if not isinstance(index, int) or not 0 <= index < len(workloads) or len(body) != 4:
            raise ValueError(f"{RECORD_FILE}: a record does not refer to a workload of {WORKLOAD_FILE}")
        trace, seconds, target, args = body
        specs = tuple(TensorSpec(str(a[1]), tuple(int(d) for d in a[2])) for a in args or [])
        records.append(DatabaseRecord(workloads[index], trace, tuple(map(float, seconds or ())), target or {}, specs))
    return records


def readme(
    *,
    model: str,
    target: Mapping[str, Any],
    inputs: Sequence[TensorSpec],
    records: int,
    preparation: str,
    tvm: str,
    simulated: bool = False,
) -> str:
    """The folder's README.md.

    ``preparation`` is the key of the module's; ``simulated``: the records come from a simulated device.
    """
    cuda = target.get("kind") == "cuda"
    names = [f"x{i}" for i in range(len(inputs))]
    example = [
        f'{n} = tvm.runtime.tensor(np.zeros({tuple(t.shape)}, "{t.dtype}"), device)'
        for n, t in zip(names, inputs, strict=True)
    ]
    listed = [f"{i}. `{t.name}`: {t.dtype} {list(t.shape)}" for i, t in enumerate(inputs, start=1)]
    cores = "the GPU above" if cuda else f"{target.get('num-cores', 1)} of them"
    return _README.read_text(encoding="utf-8").format(
        model=model,
        target=json.dumps(dict(target), indent=2),
        tvm=tvm,
        records=records,
        preparation=preparation,
        device="cuda" if cuda else "cpu",
        example="\n".join(example),
        arguments=", ".join(names),
        inputs="\n".join(listed),
        cores=cores,
        warning=SIMULATED if simulated else "",
    )


def folder_texts(
    *,
    model: str,
    target: Mapping[str, Any],
    inputs: Sequence[TensorSpec],
    records: Sequence[DatabaseRecord],
    preparation: str,
    tvm: str,
    simulated: bool = False,
) -> dict[str, str]:
    """Every file of the exported folder but ``module.json`` and ``params.npz``, by name; see :func:`readme`."""
    workloads, lines = database_texts(records)
    return {
        WORKLOAD_FILE: workloads,
        RECORD_FILE: lines,
        PREPARATION_FILE: f"{preparation}\n",
        "target.json": json.dumps(dict(target), indent=2) + "\n",
        **_intrinsics(lines),
        **{script.name: script.read_text(encoding="utf-8") for script in SCRIPTS},
        "README.md": readme(
            model=model,
            target=target,
            inputs=inputs,
            records=len({r.hash for r in records}),
            preparation=preparation,
            tvm=tvm,
            simulated=simulated,
        ),
    }


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=isinstance(value, Mapping))


def _lines(path: Path, length: int) -> list[Any]:
    values = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            value = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path.name}, line {number}: not JSON ({error})") from error
        if not isinstance(value, list) or len(value) != length:
            raise ValueError(f"{path.name}, line {number}: not a list of {length}")
        values.append(value)
    return values


def _intrinsics(records: str) -> dict[str, str]:
    """The file of the intrinsics that the traces of records name; none where they name none."""
    named = set(INTRINSIC.findall(records))
    if not named:
        return {}
    known = intrinsics(named)
    return {INTRINSICS_FILE: _compact({name: known[name] for name in sorted(named)}) + "\n"}
