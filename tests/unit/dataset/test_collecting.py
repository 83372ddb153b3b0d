from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tunesmith.dataset.collecting import MAX_SHARDS, Collecting, given_up, parse_shard
from tunesmith.dataset.shards import restricted
from tunesmith.dataset.workloads import content_hash, list_text, parse_operators, read_workloads
from tunesmith.errors import InvalidInput, InvalidOperator
from tunesmith.operators import parse_operator
from tunesmith.search.uniform import UniformSearcher
from tunesmith.testing.synthetic import SyntheticTask, tiny_space

pytestmark = pytest.mark.parallel


def test_shards_share_no_program_and_leave_none_out() -> None:
    task = SyntheticTask(tiny_space(), invalid=0.3)
    asked = []
    for shard in range(3):
        score = restricted(task.space, task.validity, Collecting(99, shard, 3))
        asked.append(set(UniformSearcher(task.space, seed=shard).ask(99, score=score)))
    assert set().union(*asked) == task.valid_points()
    assert sum(map(len, asked)) == len(task.valid_points())
    batch = task.space.at(np.arange(task.space.size))
    task.resolved = 0
    restricted(task.space, task.validity, Collecting(99, 0, 3))(batch)
    assert task.resolved < task.space.size, "spellings of other shards are not looked at"


def test_a_shard_is_written_as_a_part_of_all() -> None:
    assert (parse_shard("1/1"), parse_shard("2/4")) == ((0, 1), (1, 4))
    for bad in ("0/2", "3/2", "1", "a/b", f"1/{MAX_SHARDS + 1}"):
        with pytest.raises(InvalidInput, match=rf"--shard must look like 2/4.*not '{bad}'"):
            parse_shard(bad)


def test_what_is_asked_for_is_bounded() -> None:
    Collecting(1, 1, 2).check()
    for bad, said in ((Collecting(0), "per_task must be 1"), (Collecting(1, 2, 2), "shard must be 0 to 1, not 2")):
        with pytest.raises(InvalidInput, match=said):
            bad.check()
    assert [Collecting(8).wanted(labels) for labels in (0, 5, 9)] == [8, 3, 0]
    assert not given_up(64, 0)
    assert given_up(65, 0)
    assert not given_up(1000, 300)


def test_a_list_is_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("# products\ngemm:64x64x64\n\ngemm:64x64x64:float32  # again\nsoftmax:8x128:float32\n")
    specs = read_workloads(path)
    assert [spec.canonical for spec in specs] == ["gemm:64x64x64:float32", "softmax:8x128:float32"]
    assert content_hash(specs) == content_hash(specs[::-1])
    assert [spec.canonical for spec in parse_operators(list_text(specs).splitlines())] == sorted(
        spec.canonical for spec in specs
    )
    path.write_text("gemm:64x64x64\nconv9d:1\n")
    with pytest.raises(InvalidOperator, match=r"list.txt, line 2: there is no operator 'conv9d'"):
        read_workloads(path)
    path.write_text("# nothing\n")
    with pytest.raises(InvalidInput, match="has no operator; write one a line"):
        read_workloads(path)
    with pytest.raises(InvalidInput, match=r"cannot read --workloads .*No such file"):
        read_workloads(tmp_path / "none.txt")


def test_a_job_has_operators_of_one_precision() -> None:
    assert parse_operators(["gemm:8x8x8", "gemm:8x8x8:float32"]) == [parse_operator("gemm:8x8x8")]
    with pytest.raises(InvalidInput, match=r"operators\[1\]: gemm:8x8x8:bf16 is of precision bf16 and the first of"):
        parse_operators(["gemm:8x8x8", "gemm:8x8x8:bf16"])
    with pytest.raises(InvalidOperator, match=r"operators\[1\]: .*gemm is written"):
        parse_operators(["gemm:8x8x8", "gemm:8x8"])
    with pytest.raises(InvalidInput, match="a list of 1 to 1000 specs, not 0"):
        parse_operators([])
