"""The README's commands as somebody pastes them: word for word, but for budgets."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import effort

ROOT = Path(__file__).parents[2]
PORT = 8700
"""Where the README's stack is."""
WAIT = 400.0
"""Seconds for the commands of one block, on a machine that is busy with others."""
BUDGETS = (
    (re.compile(r"(--time 20\b)"), r"\1 --trials 3"),
    (re.compile(r"((?:--trials |trials=|\"trials\": ))(?:8|24)\b"), r"\g<1>2"),
    (re.compile(r"\btime=60\b"), "trials=0"),
    (re.compile(r"lab:8700\", tune=120"), '127.0.0.1:8700", tune=None'),
    (re.compile(r"--time 1$", re.MULTILINE), "--time 0.2"),
)
"""What the jobs and the comparison of the documents may cost, and what they cost here."""
NOTEBOOK = ROOT / "docs" / "tutorial" / "python.ipynb"
PAGES: dict[str, tuple[str, str]] = {
    "README.md": ("", "example = x"),
    "docs/how-to/tune-from-python.md": ("", ""),
    "docs/how-to/use-the-client.md": ("", ""),
    "docs/how-to/propose-candidates.md": (
        "",
        """
with Client("http://127.0.0.1:8700") as client:
    job = client.submit(operator="gemm:96x160x224:float32", target="cpu", trials=1000, search="random")
    for event in client.follow(job.id):
        champion = client.space(job.id, client.tasks(job.id)[0].id).champion if event.kind == "round_finished" else None
        if champion is not None and champion.sketch is not None:
            break
    assert isinstance(one_step_from_the_champion(client, job.id, client.tasks(job.id)[0].id), list)
    client.cancel(job.id)
""",
    ),
    "docs/how-to/share-helion-configurations.md": (
        "",
        """
with Client("http://127.0.0.1:8700") as client:
    assert [remembered(client, "key", lambda: text) for text in ("first", "second")] == ["first"] * 2
""",
    ),
    "docs/how-to/serve-a-library.md": (
        "",
        """
assert Served("tuned-net/model.so")(example.numpy()).shape == (1, 10)
""",
    ),
    "docs/how-to/your-own-tvm-pipeline.md": ("", """compiled("model.onnx", "tuned-in-python")"""),
    "docs/how-to/exchange-records.md": (
        """
with Client("http://127.0.0.1:8700") as client:
    client.export_records("conv2d.parquet")
""",
        "",
    ),
    "docs/how-to/quantize-a-model.md": (
        """
import numpy as np
paths, preprocessed = ["first", "second"], lambda path: np.zeros((1, 3, 224, 224))
""",
        """assert images.shape == (2, 1, 3, 224, 224)""",
    ),
    "docs/how-to/torch-compile.md": (
        "",
        """
(answered,) = served(net, [torch.randn(1, 3, 32, 32)])
assert answered.shape == (1, 10)
""",
    ),
}
"""Pages whose Python runs as one program, in this order, with what goes before and after each."""
SHELL = ("bash", "-e", "-o", "pipefail", "-c")


def blocks(quickstart: str) -> list[tuple[str, str]]:
    """Language and text of the commands below a heading."""
    section = (ROOT / "README.md").read_text().partition(f"## Quickstart: {quickstart}\n")[2].partition("\n## ")[0]
    return re.findall(r"```(\w+)\n(.*?)```", section, re.DOTALL)


def python_of(page: str) -> str:
    """The Python of a page."""
    return "\n".join(re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text("utf-8"), re.DOTALL | re.MULTILINE))


def program() -> str:
    """All Python of the documents."""
    return "\n".join(part for page, (before, after) in PAGES.items() for part in (before, python_of(page), after))


def thrifty(text: str) -> str:
    """The same commands, whose jobs measure a few candidates; with ``TUNESMITH_TESTS=thorough`` as many as there."""
    if effort.THOROUGH:
        return text
    for budget, less in BUDGETS:
        text = budget.sub(less, text)
    return text


def activated(env: Mapping[str, str]) -> dict[str, str]:
    """With the environment's commands first, as ``activate`` puts them."""
    return {**env, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"}


def pasted(text: str, folder: Path, env: Mapping[str, str], shell: tuple[str, ...] = SHELL) -> str:
    """What the commands of a block print, all of which succeed."""
    done = subprocess.run(
        [*shell, text],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=WAIT,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout
