"""``.pt2`` archives that would run code or unfold: refused, or read without it."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path

import hostile_pt2
import pytest
from peak_memory import grows_by_less_than

from tools.mutants import models
from tunesmith.errors import InvalidInput, ModelRejected
from tunesmith.model_files import check_archive
from workers.tvm_backend.warm import warm

warm("llvm")

from workers.tvm_backend.frontends import import_model  # noqa: E402
from workers.tvm_backend.frontends.torch import expressions, program  # noqa: E402

pytestmark = pytest.mark.parallel


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    path: Path = tmp_path_factory.mktemp("pt2") / "net.pt2"
    models.program(path)
    return hostile_pt2.entries(path)


@pytest.mark.parametrize("name", hostile_pt2.HOSTILE)
def test_what_would_run_code_is_refused(tmp_path: Path, valid: dict[str, bytes], name: str) -> None:
    marker = tmp_path / "marker"
    path = hostile_pt2.write(tmp_path / "net.pt2", hostile_pt2.HOSTILE[name](valid, marker))
    with pytest.raises(ModelRejected):
        import_model.import_model(path, "pt2", {"x": (3, 4)})
    assert not marker.exists()


def test_sample_inputs_are_left_unread(tmp_path: Path, valid: dict[str, bytes]) -> None:
    """As every archive has a pickle there: the file is no reason to refuse the model."""
    marker = tmp_path / "marker"
    content = {**valid, hostile_pt2.SAMPLES: hostile_pt2.pickled(marker)}
    changed = hostile_pt2.rewritten(content, lambda data: data.update(guards_code=[hostile_pt2.command(marker)]))
    mod = import_model.import_model(hostile_pt2.write(tmp_path / "net.pt2", changed), "pt2", {"x": (3, 4)})
    assert json.loads(str(mod["main"].attrs["input_names"])) == ["x"]
    assert not marker.exists()


def test_a_part_that_torch_misses_later_is_no_error_without_a_name(tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    models.static_program(path)

    def without_signature(data: hostile_pt2.Program) -> None:
        data["graph_module"]["module_call_graph"][0]["signature"] = None

    hostile_pt2.write(path, hostile_pt2.rewritten(hostile_pt2.entries(path), without_signature))
    with pytest.raises(ModelRejected, match="AttributeError"):
        import_model.import_model(path, "pt2", {})


def test_the_pickle_of_a_weight_runs_where_nothing_checks_it(tmp_path: Path) -> None:
    """The attack is one: PyTorch's own unpickler runs it."""
    torch = hostile_pt2.torch
    marker = tmp_path / "marker"
    (tmp_path / "weight").write_bytes(hostile_pt2.pickled(marker))
    torch.load(tmp_path / "weight", weights_only=False)
    assert marker.exists()


@pytest.mark.parametrize(
    "text",
    [
        "Symbol('s77', positive=True, integer=True)",
        "Mul(Integer(2), Symbol('s0', integer=True))",
        "s0 + 1",
        "2*s0//3",
        "Max(1, s0 - 4)",
        "FloorDiv(Add(Symbol('s0', integer=True), Integer(-1)), Integer(2))",
        "s0**2",
        "Mod(s0, 8)",
        "Pow(Symbol('s0', integer=True), Integer(2))",
        "u0 >= 2",
        "Float('0.5', precision=53)",
        "-s0",
        "true",
        "Pow(Integer(2), Integer(-1))",
        "(s0 + 1)**8 * (s1 + 2)**2",
        "Max(" + ", ".join(f"s{i} + 1" for i in range(60)) + ")",
    ],
)
def test_arithmetic_on_extents(text: str) -> None:
    assert expressions.problem_of(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('id')",
        "Symbol('x')",
        "Symbol('s0', __class__=True)",
        "E",
        "exit()",
        "s0.__class__",
        "(lambda: 1)()",
        "[s0 for s0 in ()]",
        "'s0'",
        "Symbol(Symbol('s0'))",
        "2**2**70",
        "Pow(Integer(2), Integer(65))",
        "(2**60)**60",
        "2**s0",
        "9" * 40,
        "Integer(10**9)",
        "Float('nan')",
        "Float('0.5', precision=10**9)",
        "Max(*s0)",
        "Function('f')(s0)",
        "s0 if s0 else 1",
        "(" * 3000 + "s0" + ")" * 3000,
        "-" * 7000 + "s0",
        "s0 + " * 4000 + "1",
        "",
        "s0\x00",
        "f'{s0}'",
        "*".join(f"(s{i} + s{i + 1})" for i in range(200)),
        "Mod(Mul(Pow(Add(s0, s1, s2), 64), Pow(Add(s3, s4, s5), 64)), 7)",
    ],
)
def test_no_arithmetic(text: str) -> None:
    assert expressions.problem_of(text)


@pytest.mark.parametrize(
    ("target", "right"),
    [
        ("torch.ops.aten.relu.default", True),
        ("torch.ops.aten.__and__.Tensor", True),
        ("_operator.mul", True),
        ("torch.sym_max", True),
        ("torch.ops.higher_order.cond", True),
        ("math.trunc", True),
        ("torch.ops.aten.relu", False),
        ("torch.ops.aten.relu.__call__", False),
        ("torch.ops.aten.__init__.default", False),
        ("torch.ops.aten.from_file.out", False),
        ("torch.ops.prim.Print.default", False),
        ("torch.os.system", False),
        ("torch.ops.higher_order.call_torchbind", False),
        ("builtins.eval", False),
        ("math.sin", False),
    ],
)
def test_operators(target: str, right: bool) -> None:
    assert program.is_operator(target) is right


def _encrypted(path: Path) -> None:
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02")
    struct.pack_into("<H", data, at + 8, 1)
    path.write_bytes(data)


def test_entries_that_are_not_what_they_seem(tmp_path: Path, valid: dict[str, bytes]) -> None:
    path = tmp_path / "net.pt2"
    hostile_pt2.write(path, {**valid, "../../../../etc/cron.d/x": b"x"})
    with pytest.raises(ModelRejected, match="no path inside"):
        check_archive(path)
    hostile_pt2.write(path, valid)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("net/models/model.json", b"{}")
    with pytest.raises(ModelRejected, match="is there twice"):
        check_archive(path)
    hostile_pt2.write(path, valid)
    _encrypted(path)
    with pytest.raises(ModelRejected, match="is encrypted"):
        check_archive(path)
    hostile_pt2.write(path, valid, zipfile.ZIP_BZIP2)
    with pytest.raises(ModelRejected, match="a method other than deflate"):
        check_archive(path)


def test_an_archive_that_unfolds(tmp_path: Path, valid: dict[str, bytes]) -> None:
    """The table of contents tells; nothing is unpacked."""
    path = hostile_pt2.write(
        tmp_path / "net.pt2", {**valid, "data/weights/weight_0": bytes(1 << 20)}, zipfile.ZIP_DEFLATED
    )
    check_archive(path)
    data = bytearray(path.read_bytes())
    at = data.index(b"net/data/weights/weight_0", data.index(b"PK\x01\x02")) - 46
    struct.pack_into("<I", data, at + 24, 0xFFFFFF00)
    path.write_bytes(data)
    with pytest.raises(ModelRejected, match="unpacks to 42949"):
        check_archive(path)


def test_weights_that_reach_beyond_their_bytes(tmp_path: Path, valid: dict[str, bytes]) -> None:
    for change, message in (
        ({"sizes": [{"as_int": 4096}, {"as_int": 4096}]}, "reaches beyond"),
        ({"storage_offset": {"as_int": 1}}, "reaches beyond"),
        ({"sizes": [{"as_int": 1 << 30}], "strides": [{"as_int": 0}]}, "unfolds from"),
        ({"sizes": [{"as_int": -1}], "strides": [{"as_int": 1}]}, "no numbers"),
    ):
        made = hostile_pt2.rewritten(
            valid,
            lambda data, change=change: data["config"]["fc.weight"]["tensor_meta"].update(change),  # type: ignore[misc]
            hostile_pt2.WEIGHTS,
        )
        path = hostile_pt2.write(tmp_path / "net.pt2", made)
        with pytest.raises(ModelRejected, match=message):
            import_model.import_model(path, "pt2", {"x": (3, 4)})


class Unfolds(hostile_pt2.torch.nn.Module):
    """A constant of 2^30 numbers, summed up."""

    def forward(self, x: hostile_pt2.torch.Tensor) -> hostile_pt2.torch.Tensor:
        return x + hostile_pt2.torch.full((1 << 15, 1 << 15), 1.0).sum()


class Expands(hostile_pt2.torch.nn.Module):
    """The same by an operator on a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = hostile_pt2.torch.nn.Parameter(hostile_pt2.torch.ones(1))

    def forward(self, x: hostile_pt2.torch.Tensor) -> hostile_pt2.torch.Tensor:
        return x + self.weight.expand(1 << 30).sum()


@pytest.mark.parametrize("net", [Unfolds, Expands])
def test_constants_of_a_program_that_unfold(tmp_path: Path, net: type) -> None:
    torch = hostile_pt2.torch
    with torch.no_grad():
        exported = torch.export.export(net(), (torch.ones(1, 4),))
    torch.export.save(exported, tmp_path / "net.pt2")
    with grows_by_less_than(1 << 30), pytest.raises(ModelRejected, match="unfolds from"):
        import_model.import_model(tmp_path / "net.pt2", "pt2")


def test_shapes_that_are_given_are_limited(tmp_path: Path, valid: dict[str, bytes]) -> None:
    path = hostile_pt2.write(tmp_path / "net.pt2", valid)
    with pytest.raises(InvalidInput, match="up to 2147483647 elements"):
        import_model.import_model(path, "pt2", {"x": (1 << 30, 4)})
