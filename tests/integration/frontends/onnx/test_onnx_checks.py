"""ONNX files that are refused before a library reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import hostile_onnx
import onnx
import psutil
import pytest
from peak_memory import grows_by_less_than

from tunesmith.errors import InvalidInput, ModelRejected, NotAModel
from workers.tvm_backend.warm import warm

warm("llvm")

from workers.tvm_backend.frontends import import_model  # noqa: E402
from workers.tvm_backend.passes import pipeline  # noqa: E402

pytestmark = pytest.mark.parallel


def refused(folder: Path, model: onnx.ModelProto) -> ModelRejected:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelRejected) as caught:
        import_model.import_model(path, "onnx")
    return caught.value


@pytest.mark.parametrize("place", hostile_onnx.EXTERNAL)
def test_external_data_is_refused_wherever_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_bytes(bytes(64))
    error = refused(tmp_path, hostile_onnx.EXTERNAL[place]())
    assert "stored outside the file ('k' in " in error.detail


def test_the_place_of_external_data_is_named(tmp_path: Path) -> None:
    error = refused(tmp_path, hostile_onnx.EXTERNAL["function"]())
    assert "functions[0].node[0].attribute[0].t" in error.detail


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hostile_onnx.doubling(30), r"operators once its functions are written out; up to 50000"),
        (lambda: hostile_onnx.doubling(60), r"operators once its functions are written out; up to 50000"),
        (lambda: hostile_onnx.recursive(1), r"own\.F0 calls itself: own\.F0 → own\.F0"),
        (lambda: hostile_onnx.recursive(3), r"calls itself: own\.F0 → own\.F1 → own\.F2 → own\.F0"),
        (lambda: hostile_onnx.deep(100), r"functions inside one another; up to 64"),
        (lambda: hostile_onnx.many_functions(10_001), r"10001 functions; up to 10000"),
        (lambda: hostile_onnx.chain(50_001), r"50001 operators"),
        (lambda: hostile_onnx.wide(20_000), r"20000 inputs or outputs of Concat"),
        (hostile_onnx.copied_graph, r"operators once its functions are written out"),
        (hostile_onnx.cycle, r"uses 'b', which nothing before it makes: the graph has a cycle"),
        (hostile_onnx.made_twice, r"makes 'y', which another operator makes already"),
        (hostile_onnx.short_tensor, r"holds 16 bytes, and 1073741824 are needed"),
        (hostile_onnx.tensor_twice, r"its content twice, as float_data and raw_data"),
        (hostile_onnx.negative_tensor, r"negative extent"),
    ],
    ids=lambda each: getattr(each, "__name__", "") if callable(each) else "",
)
def test_a_small_file_that_would_grow(tmp_path: Path, make: Callable[[], onnx.ModelProto], message: str) -> None:
    error = refused(tmp_path, make())
    with pytest.raises(ModelRejected, match=message):
        raise error


def test_branches_inside_branches_beyond_what_protobuf_reads(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(hostile_onnx.too_deep(40))
    with pytest.raises(NotAModel, match="does not parse"):
        import_model.import_model(tmp_path / "model.onnx", "onnx")


def test_functions_within_the_limits_are_written_out(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(hostile_onnx.doubling(3), path)
    mod = import_model.import_model(path, "onnx")
    assert mod.script().count("R.nn.relu") == 8


@pytest.mark.parametrize("name", hostile_onnx.UNFOLDING)
def test_constants_and_results_that_unfold(tmp_path: Path, name: str) -> None:
    """Without taking the memory: this process never grows by as much."""
    before = psutil.Process().memory_info().rss
    with grows_by_less_than(1 << 30):
        error = refused(tmp_path, hostile_onnx.UNFOLDING[name]())
    assert psutil.Process().memory_info().rss - before < 1 << 28, error.detail


def test_shapes_that_are_given_are_limited(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(hostile_onnx.model([onnx.helper.make_node("Relu", ["x"], ["y"])], shape=["batch", "width"]), path)  # type: ignore[list-item]
    with pytest.raises(InvalidInput, match="up to 2147483647 elements"):
        import_model.import_model(path, "onnx", {"x": (1_000_000, 1_000_000)})


def test_constants_within_the_limit_are_folded(tmp_path: Path) -> None:
    """A mask of 64 MiB from one number."""
    path = tmp_path / "model.onnx"
    shape = onnx.helper.make_tensor("s", onnx.TensorProto.INT64, [2], [4096, 4096])
    weight = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [1], [1.0])
    nodes = [onnx.helper.make_node("Expand", ["w", "s"], ["k"]), onnx.helper.make_node("Add", ["x", "k"], ["y"])]
    onnx.save(hostile_onnx.model(nodes, [shape, weight], shape=[1, 4096]), path)
    prepared = pipeline.prepare(import_model.import_model(path, "onnx"))
    assert sum(each.nbytes for each in prepared.params.values()) <= 4096 * 4096 * 4
