"""Print the path of the model that ``make tune`` tunes by default: SqueezeNet, shipped inside the package onnx."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def main() -> int:
    """Print the path; found without importing onnx, which takes a second."""
    spec = importlib.util.find_spec("onnx")
    if spec is None or not spec.submodule_search_locations:
        print("the package onnx is missing: run 'make venv'", file=sys.stderr)
        return 1
    print(Path(spec.submodule_search_locations[0]) / "backend/test/data/light/light_squeezenet.onnx")
    return 0


if __name__ == "__main__":
    sys.exit(main())
