"""Write ``tunesmith/tags.json``: TVM's target tags, kinds and options, so that targets parse without TVM.

Run it after a change of TVM's version: ``python tools/generate_tags.py``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tvm
from tvm.target import Target, TargetKind, list_tags

FILE = Path(__file__).parents[1] / "tunesmith" / "tags.json"


def plain(value: Any) -> Any:
    """TVM's containers as JSON types, without the empty tag that every export carries."""
    if isinstance(value, str | bool | int | float):
        return value
    if hasattr(value, "items"):
        return {str(key): plain(item) for key, item in value.items() if (key, item) != ("tag", "")}
    return [plain(item) for item in value]


def collect() -> dict[str, Any]:
    """The table: ``tags`` (name to target JSON) and ``kinds`` (name to default keys and option types)."""
    tags = {str(name): plain(target.export()) for name, target in list_tags().items()}
    kinds = {}
    for name in map(str, Target.list_kinds()):
        options = {str(key): str(kind) for key, kind in TargetKind.options_from_name(name).items()}
        kinds[name] = {"options": options}
    return {"tvm": ".".join(tvm.__version__.split(".")[:2]), "kinds": kinds, "tags": tags}


def main() -> None:
    """Write the table next to ``tunesmith.targets``."""
    FILE.write_text(json.dumps(collect(), indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
