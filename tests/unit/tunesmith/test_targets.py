from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm.target import Target as TVMTarget

from tunesmith.errors import UnknownTarget
from tunesmith.targets import Target, cpu_class, cpu_of_class, local_cpu_classes, parse_target, tags

ROOT = Path(__file__).parents[3]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_tags", ROOT / "tools" / "generate_tags.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_is_tvms() -> None:
    tools = generator()
    assert json.loads(tools.FILE.read_text()) == tools.collect()


def complete(tag: str) -> bool:
    try:
        parse_target(tag)
    except UnknownTarget as error:
        if "num-cores" not in error.detail:
            raise
        return False
    return True


def test_every_complete_tag_is_a_target_for_tvm() -> None:
    accepted = [tag for tag in tags() if complete(tag)]
    assert len(accepted) > 250
    for tag in accepted:
        target = parse_target(tag).target
        assert target is not None
        assert target.tag == tag
        ours, theirs = TVMTarget(target.to_json()), TVMTarget(tag)
        assert ours.tag == tag
        assert ours.kind.name == theirs.kind.name
        assert dict(ours.attrs).keys() == dict(theirs.attrs).keys()


@pytest.mark.parametrize(
    ("text", "kind", "cores"),
    [
        ("cpu", "llvm", None),
        ("cpu:1", "llvm", 1),
        ("cpu:16", "llvm", 16),
        ("cuda", "cuda", None),
        (" cpu ", "llvm", None),
    ],
)
def test_short_names_stay_symbolic(text: str, kind: str, cores: int | None) -> None:
    spec = parse_target(text)
    assert spec.is_local
    assert spec.target is None
    assert (spec.name, spec.kind, spec.cores) == (text.strip(), kind, cores)


@pytest.mark.parametrize(
    ("spec", "device_class", "cores"),
    [
        ("nvidia/nvidia-h100", "nvidia-nvidia-h100", 1),
        ("aws/cpu/c5.9xlarge", "llvm-skylake-avx512-18", 18),
        ({"kind": "llvm", "mcpu": "znver4", "num-cores": 2}, "llvm-znver4-2", 2),
        ('{"kind": "cuda", "arch": "sm_90a"}', "cuda-sm_90a", 1),
        ({"tag": "nvidia/nvidia-h100", "l2_cache_size_bytes": 1024}, "nvidia-nvidia-h100", 1),
        ({"tag": "arm/rasp4b", "num-cores": 4}, "llvm-cortex-a72-4", 4),
        ({"tag": "arm/pynq", "num-cores": 2}, "arm-pynq-2", 2),
    ],
)
def test_device_classes(spec: str, device_class: str, cores: int) -> None:
    target = parse_target(spec).target
    assert target is not None
    assert target.device_class == device_class
    assert target.num_cores == cores
    assert re.fullmatch("[a-z0-9_-]+", target.device_class)


cpus = st.fixed_dictionaries(
    {
        "kind": st.just("llvm"),
        "mcpu": st.sampled_from(["znver4", "skylake-avx512", "apple-m1"]),
        "num-cores": st.integers(1, 128),
    },
    optional={
        "mattr": st.lists(st.sampled_from(["+avx2", "-fma"])),
        "opt-level": st.integers(0, 3),
        "fast-math": st.booleans(),
    },
)
gpus = st.fixed_dictionaries(
    {"kind": st.just("cuda"), "arch": st.sampled_from(["sm_80", "sm_90a"])},
    optional={"max_threads_per_block": st.integers(1, 2048), "host": st.just({"kind": "llvm"})},
)


@given(cpus | gpus)
def test_json_and_text_say_the_same(body: dict[str, object]) -> None:
    spec = parse_target(body)
    assert spec.target is not None
    assert spec.target.to_json() == body
    backwards = dict(reversed(list(body.items())))
    for repeated in (parse_target(json.dumps(body)), parse_target(backwards), parse_target(spec.name)):
        assert repeated.target == spec.target
        assert repeated.target is not None
        assert repeated.target.hash == spec.target.hash
        assert hash(repeated.target) == hash(spec.target)


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ("nvidia/h100", "did you mean"),
        ("", "accepted are"),
        ("llvm", "accepted are"),
        ("cpu:0", "4096"),
        ("cpu:x", "'x'"),
        ("cpu:", "''"),
        ("cpu:99999", "4096"),
        ("cpu:-1", "-1"),
        ("{", "does not parse"),
        ("{}", "kind"),
        ({"kind": "quantum"}, "quantum"),
        ({"kind": "llvm"}, "num-cores"),
        ({"kind": "llvm", "num-cores": 2}, "mcpu"),
        ({"kind": "llvm", "mcpu": "znver4", "num-cores": "two"}, "num-cores"),
        ({"kind": "llvm", "mcpu": "znver4", "num-cores": True}, "num-cores"),
        ({"kind": "llvm", "mcpu": "znver4", "num-cores": 0}, "num-cores"),
        ({"kind": "llvm", "mcpu": 5, "num-cores": 2}, "mcpu"),
        ({"kind": "llvm", "mcpu": "a", "num-cores": 1, "cpu": 1}, "'cpu'"),
        ({"kind": "llvm", "mcpu": "a", "num-cores": 1, "mattr": "+avx"}, "mattr"),
        ({"kind": "cuda"}, "arch"),
        ({"kind": "cuda", "arch": "sm_90", "host": {"kind": "x"}}, "'x'"),
        ({"tag": "no/such"}, "no/such"),
        ({"tag": "nvidia/nvidia-h100", "kind": "llvm"}, "of kind"),
        ('["cpu"]', "accepted are"),
        ([], "string or an object"),
        (5, "string or an object"),
        ("arm/rasp4b", "num-cores"),
    ],
)
def test_nonsense_is_refused_by_name(bad: str, named: str) -> None:
    with pytest.raises(UnknownTarget) as caught:
        parse_target(bad)
    assert named in caught.value.detail
    assert caught.value.field == "target"


def test_a_host_serves_every_number_of_cores_up_to_its_own() -> None:
    assert local_cpu_classes("znver5", 3) == ("llvm-znver5-1", "llvm-znver5-2", "llvm-znver5-3")
    assert parse_target({"kind": "llvm", "mcpu": "znver5", "num-cores": 3}).target == Target(
        {"num-cores": 3, "mcpu": "znver5", "kind": "llvm"}
    )
    assert cpu_class("znver5", 3) in local_cpu_classes("znver5", 8)


@pytest.mark.parametrize(
    ("mcpu", "features", "tiled"),
    [
        ("rocketlake", ["+amx-tile", "+amx-bf16", "+amx-int8"], ("bf16", "int8")),
        ("rocketlake", ["+amx-tile", "+amx-int8"], ("int8",)),
        ("sapphirerapids", [], ("bf16", "int8")),
        ("sapphirerapids", ["-amx-bf16"], ("int8",)),
        ("znver5", ["+avx512bf16"], ()),
    ],
)
def test_a_matrix_unit_is_known_by_name_or_by_features(mcpu: str, features: list[str], tiled: tuple[str, ...]) -> None:
    assert Target({"kind": "llvm", "mcpu": mcpu, "mattr": features, "num-cores": 2}).tiled == tiled


def test_what_a_processor_can_do_beyond_its_name_is_part_of_its_class() -> None:
    target = Target(
        {"kind": "llvm", "mcpu": "rocketlake", "mattr": ["+amx-tile", "+avx512bf16", "-fma"], "num-cores": 2}
    )
    assert target.device_class == "llvm-rocketlake-amx-tile-avx512bf16-2"
    assert cpu_of_class(target.device_class) == target.to_json() | {"mattr": ["+amx-tile", "+avx512bf16"]}
    assert cpu_of_class("llvm-znver5-3") == {"kind": "llvm", "mcpu": "znver5", "num-cores": 3}
    assert cpu_of_class("cuda-sm_90a") is None
    # What no kernel asks for makes no class of its own: a device without it runs the same code.
    assert Target(target.to_json() | {"mattr": ["+avx2"]}).device_class == "llvm-rocketlake-2"
