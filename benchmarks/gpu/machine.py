"""This machine's GPU, and what to compile for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tunesmith.child_process import run_to_end
from tunesmith.errors import InvalidInput, MissingDependency, TargetUnavailable
from tunesmith.safe_path import python
from tunesmith.targets import TargetSpec, parse_target, tags

COMMAND_SECONDS = 120.0
COMMON: Mapping[str, Any] = {
    "kind": "cuda",
    "max_shared_memory_per_block": 49152,
    "max_threads_per_block": 1024,
    "max_num_threads": 1024,
    "registers_per_block": 65536,
    "thread_warp_size": 32,
}
"""What TVM's tags say of every GPU since 2016."""


@dataclass(frozen=True)
class Machine:
    """A GPU.

    Attributes:
        name: as the driver has it.
        target: with a concrete target.
        simulate: there is none, and latencies are invented.
        facts: of driver, runtime and compiler, for the report.
    """

    name: str
    target: TargetSpec
    simulate: bool = False
    facts: Mapping[str, str] = field(default_factory=dict)


def find(target: str | None, simulate: bool) -> Machine:
    """The first GPU, with the target that was named or that of its architecture.

    Raises:
        InvalidInput: a simulated GPU without a target, or a target that is no NVIDIA GPU's.
        TargetUnavailable: no GPU can be used; says why, and what helps.
        MissingDependency: nothing compiles for it.
    """
    spec = None if target is None else parse_target(target)
    if spec is not None and (spec.target is None or spec.kind != "cuda"):
        raise InvalidInput("name a GPU by its tag or as target JSON", field="target", value=target)
    if simulate:
        if spec is None:
            raise InvalidInput("say which GPU to simulate: --target nvidia/nvidia-h100", field="target", value=None)
        return Machine("a simulated GPU", spec, True)
    found = _check()
    runtime, compiler = found["runtime"], found["compiler"]
    if not runtime["ok"]:
        raise TargetUnavailable(f"{runtime['detail']}; {runtime['remedy']}", field="target", value=target or "cuda")
    if compiler["name"] is None or compiler["message"]:
        raise MissingDependency(f"nothing compiles for a GPU here; 'tunesmith doctor' says why: {compiler['message']}")
    name, arch = runtime["gpus"][0]
    facts = {"GPU": name, "CUDA": runtime["detail"].rpartition("; ")[2], "compiler": compiler["name"]}
    return Machine(name, spec or target_of(name, arch), facts=facts)


def target_of(name: str, arch: str) -> TargetSpec:
    """TVM's tag for a GPU: that of its name, else one of its architecture, else a target of what all have in common.

    Args:
        name: as the driver has it, such as ``NVIDIA A100-SXM4-80GB``.
        arch: ``sm_80``; TVM writes ``sm_90a`` for that of ``sm_90``.
    """
    words = set(name.lower().replace("-", " ").split())
    specs = [parse_target(tag) for tag in tags() if tag.startswith("nvidia/")]
    same = [spec for spec in specs if spec.target and str(spec.target.json.get("arch")) in (arch, f"{arch}a")]
    if not same:
        return parse_target({**COMMON, "arch": arch})
    # The fewest words that the name lacks, and of those tags the one with the most that it has.
    return min(same, key=lambda spec: (len(_words(spec) - words), -len(_words(spec)), spec.name))


def _words(spec: TargetSpec) -> set[str]:
    return set(spec.name.rpartition("/")[2].split("-"))


def _check() -> dict[str, Any]:
    done = run_to_end(python("workers.tvm_backend.build.cuda_check"), COMMAND_SECONDS)
    done.check_returncode()
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
