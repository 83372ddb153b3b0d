"""Targets without TVM: short names, TVM's tags, target JSON, and the device class that can run them.

``tags.json`` next to this file is TVM's own table of tags, kinds and options (``tools/generate_tags.py``).
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from tunesmith import strict_json
from tunesmith.arithmetic import FLAGS, NARROW
from tunesmith.errors import InvalidInput, TargetUnavailable, UnknownTarget

MAX_CORES = 4096
MAX_SPEC = 2000
"""Characters of a target as it is given."""
MAX_TEXT = 200
"""Characters of one option of a target."""
MAX_CLASS = 100
"""Characters of a device class, which is part of a queue's name."""
CHECKS: Mapping[str, type] = {"int": int, "str": str, "bool": bool}
ACCEPTED = (
    'cpu, cpu:N, cuda, a TVM tag such as "nvidia/nvidia-h100", or target JSON such as '
    '{"kind": "llvm", "mcpu": "znver4", "num-cores": 8}'
)


@functools.lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    text = resources.files("tunesmith").joinpath("tags.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def tags() -> tuple[str, ...]:
    """Every tag that TVM knows, sorted."""
    return tuple(sorted(_table()["tags"]))


def slug(text: str) -> str:
    """``text`` as part of a queue name: lower case, anything but letters, digits and ``_`` becomes ``-``."""
    return re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-")


def cpu_class(mcpu: str, cores: int, features: Iterable[str] = ()) -> str:
    """The device class of ``cores`` cores of a CPU.

    Args:
        features: LLVM's names of what it can do beyond what ``mcpu`` says; those count that kernels ask for.
    """
    return "-".join(("llvm", slug(mcpu), *map(slug, sorted(FLAGS.keys() & set(features))), str(cores)))


def cpu_of_class(name: str) -> dict[str, Any] | None:
    """Inverse of :func:`cpu_class`, as target JSON, where a slug tells the processor's name; None for other classes."""
    mcpu, _, cores = name.removeprefix("llvm-").rpartition("-")
    if not name.startswith("llvm-") or not cores.isdigit():
        return None
    features = []
    while found := next((each for each in FLAGS if mcpu.endswith(f"-{slug(each)}")), None):
        features.append(f"+{found}")
        mcpu = mcpu.removesuffix(f"-{slug(found)}")
    return {"kind": "llvm", "mcpu": mcpu, "num-cores": int(cores)} | ({"mattr": features[::-1]} if features else {})


def local_cpu_classes(mcpu: str, cores: int, features: Iterable[str] = ()) -> tuple[str, ...]:
    """The classes that a host with ``cores`` cores serves: 1 to ``cores`` of them."""
    return tuple(cpu_class(mcpu, n, features) for n in range(1, cores + 1))


@dataclass(frozen=True, eq=False)
class Target:
    """A concrete target: what ``tvm.target.Target`` takes as a dictionary.

    Attributes:
        json: the target's JSON object; a target that came from a tag keeps it under ``tag``. Never changed.
    """

    json: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """``llvm``, ``cuda``, …"""
        return str(self.json["kind"])

    @property
    def tag(self) -> str | None:
        """TVM's tag, when the target came from one."""
        return self.json.get("tag")

    @property
    def triple(self) -> str:
        """LLVM's triple of a CPU that is not the host's; empty when the target does not say."""
        return str(self.json.get("mtriple", ""))

    @property
    def features(self) -> tuple[str, ...]:
        """What ``mattr`` adds to a CPU."""
        return tuple(each[1:] for each in self.json.get("mattr", ()) if each.startswith("+"))

    @property
    def tiled(self) -> tuple[str, ...]:
        """Precisions in which a CPU multiplies in tiles of a matrix unit."""
        if self.kind != "llvm":
            return ()
        named, features = self.json.get("mcpu"), set(self.features)
        without = {each[1:] for each in self.json.get("mattr", ()) if each.startswith("-")}
        return tuple(
            precision
            for precision, each in NARROW.items()
            if (named in each.tiled or features.issuperset(each.tiles)) and without.isdisjoint(each.tiles)
        )

    @property
    def num_cores(self) -> int:
        """Cores of a CPU; 1 for anything else."""
        return int(self.json.get("num-cores", 1)) if self.kind == "llvm" else 1

    @property
    def canonical(self) -> str:
        """The JSON text with sorted keys and no blanks."""
        return json.dumps(self.json, sort_keys=True, separators=(",", ":"))

    @property
    def hash(self) -> str:
        """SHA-256 of :attr:`canonical`, in hex."""
        return hashlib.sha256(self.canonical.encode()).hexdigest()

    @property
    def device_class(self) -> str:
        """The class of devices that can run it: :func:`cpu_class`, a tag's slug, or ``cuda-<arch>``."""
        if self.kind == "llvm" and "mcpu" in self.json:
            return cpu_class(self.json["mcpu"], self.num_cores, self.features)
        if self.kind == "llvm":
            return f"{slug(self.tag or 'llvm')}-{self.num_cores}"
        return slug(self.tag) if self.tag else f"{slug(self.kind)}-{slug(str(self.json.get('arch', 'any')))}"

    def to_json(self) -> dict[str, Any]:
        """A copy of the JSON object."""
        return dict(json.loads(self.canonical))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and self.canonical == other.canonical

    def __hash__(self) -> int:
        return hash(self.canonical)


@dataclass(frozen=True)
class TargetSpec:
    """What a user asked for.

    Attributes:
        name: a short name or a tag as given, or the canonical JSON.
        target: the concrete target; None while ``name`` is a short name that a host has to fill in.
        kind: ``llvm``, ``cuda``, …
        cores: N of ``cpu:N``; None means all of the host's.
    """

    name: str
    target: Target | None
    kind: str
    cores: int | None = None

    @property
    def is_local(self) -> bool:
        """True for ``cpu``, ``cpu:N`` and ``cuda``: the device that answers says what exactly it is."""
        return self.target is None


def parse_target(spec: str | Mapping[str, Any]) -> TargetSpec:
    """Parse a short name, a TVM tag, or target JSON (text or object).

    Raises:
        UnknownTarget: naming what is wrong and what would be accepted.
    """
    if not isinstance(spec, str):
        return _from_object(spec)
    text = spec.strip()
    if len(text) > MAX_SPEC:
        raise _unknown(f"the target is longer than {MAX_SPEC} characters", spec[:MAX_TEXT])
    if text.startswith("{"):
        try:
            value = strict_json.loads(text, "target")
        except InvalidInput as error:
            raise _unknown(error.detail, spec[:MAX_TEXT]) from error
        return _from_object(value)
    if text == "cuda":
        return TargetSpec(text, None, "cuda")
    if text == "cpu":
        return TargetSpec(text, None, "llvm")
    if text.startswith("cpu:"):
        return _cpu(text)
    if text in _table()["tags"]:
        return TargetSpec(text, _from_object({"tag": text}).target, _table()["tags"][text]["kind"])
    near = difflib.get_close_matches(text, tags(), n=3)
    raise _unknown(f"there is no target {text!r}" + (f", did you mean {' or '.join(near)}?" if near else ""), spec)


def _unknown(problem: str, value: Any) -> UnknownTarget:
    return UnknownTarget(f"{problem}; accepted are {ACCEPTED}", field="target", value=value)


def _cpu(text: str) -> TargetSpec:
    cores = text.removeprefix("cpu:")
    if not (cores.isascii() and cores.isdigit() and 1 <= int(cores) <= MAX_CORES):
        raise _unknown(f"cpu:N needs a number of cores from 1 to {MAX_CORES}, not {cores!r}", text)
    return TargetSpec(f"cpu:{int(cores)}", None, "llvm", int(cores))


def _from_object(given: Mapping[str, Any]) -> TargetSpec:
    if not isinstance(given, Mapping):
        raise _unknown("the target must be a string or an object", given)
    body = dict(given)
    if body.get("tag"):
        if not isinstance(body["tag"], str) or body["tag"] not in _table()["tags"]:
            raise _unknown(f"there is no tag {body['tag']!r}", given)
        base = _table()["tags"][body["tag"]]
        if body.get("kind", base["kind"]) != base["kind"]:
            raise _unknown(f"tag {body['tag']!r} is of kind {base['kind']!r}, not {body['kind']!r}", given)
        body = {**base, **body}
    else:
        body.pop("tag", None)
    _check_options(body, given)
    _check_complete(body, given)
    target = Target(body)
    if len(target.device_class) > MAX_CLASS:
        raise _unknown(f"the target's device class would be longer than {MAX_CLASS} characters", given)
    bare = set(given) == {"tag"}
    return TargetSpec(str(body["tag"]) if bare else target.canonical, target, target.kind)


def _check_options(body: Mapping[str, Any], given: Any) -> None:
    kinds = _table()["kinds"]
    if not isinstance(body.get("kind"), str) or body["kind"] not in kinds:
        raise _unknown(f"target kind {body.get('kind')!r} is not one of {', '.join(sorted(kinds))}", given)
    options = kinds[body["kind"]]["options"]
    for name, value in body.items():
        if name.startswith("feature."):  # what TVM finds out about a target: flags and short texts
            if not isinstance(value, str | int) or len(str(value)) > MAX_TEXT or len(name) > MAX_TEXT:
                raise _unknown(f"{name[:MAX_TEXT]!r} must be a flag, a number or a short text", given)
            continue
        if name not in options:
            raise _unknown(
                f"target kind {body['kind']!r} has no option {name!r}, it has {', '.join(sorted(options))}", given
            )
        _check_type(name, value, options[name], given)


def _check_type(name: str, value: Any, kind: str, given: Any) -> None:
    if kind == "target.Target":
        if isinstance(value, Mapping):
            _check_options(value, given)
            return
        ok = isinstance(value, str)
    elif kind.startswith("Array"):
        ok = isinstance(value, list | tuple) and all(isinstance(item, str) and len(item) <= MAX_TEXT for item in value)
    elif kind == "str":
        ok = isinstance(value, str) and len(value) <= MAX_TEXT
    else:
        ok = isinstance(value, CHECKS[kind]) and (kind == "bool" or not isinstance(value, bool))
    if not ok:
        raise _unknown(f"option {name!r} must be of type {kind}, not {str(value)[:MAX_TEXT]!r}", given)


def _check_complete(body: Mapping[str, Any], given: Any) -> None:
    if body["kind"] == "llvm":
        if not 1 <= body.get("num-cores", 0) <= MAX_CORES:
            raise _unknown(f'a CPU target needs "num-cores" from 1 to {MAX_CORES}', given)
        if "mcpu" not in body and not body.get("tag"):
            raise _unknown('a CPU target needs "mcpu", the CPU\'s LLVM name', given)
    if body["kind"] == "cuda" and "arch" not in body:
        raise _unknown('a CUDA target needs "arch", such as "sm_90a"', given)


def choose(spec: TargetSpec, known: Sequence[Mapping[str, Any]]) -> Target:
    """What a short name stands for: the largest of the targets at hand, for ``cpu:N`` with N of its cores.

    Args:
        spec: with ``is_local``.
        known: target JSON of the devices of its kind.

    Raises:
        TargetUnavailable: there is none, or none with so many cores.
    """
    if not known:
        raise TargetUnavailable(
            f"no live device of kind {spec.kind} is registered; start `tunesmith device serve` "
            "where there is one, or name the target by its tag or JSON and the job will wait for a device",
            field="target",
            value=spec.name,
        )
    best = max(known, key=lambda target: int(target.get("num-cores", 1)))
    if spec.cores is None:
        return Target(best)
    cores = int(best.get("num-cores", 1))
    if spec.cores > cores:
        raise TargetUnavailable(
            f"{spec.name} asks for {spec.cores} cores, and the largest device has {cores}: give cpu, "
            f"or cpu:N with N up to {cores}",
            field="target",
            value=spec.name,
        )
    return Target({**best, "num-cores": spec.cores})
