"""The pinned packages are those that ``pyproject.toml`` asks for, on every Python that the README names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]


def wanted() -> list[Requirement]:
    """What the package and its extras ask for. Python 3.10 has no parser of TOML."""
    text = re.sub(r"#.*", "", (ROOT / "pyproject.toml").read_text())
    lists = re.search(r"^dependencies = .*?(?=^\[project\.(?!optional))", text, re.DOTALL | re.MULTILINE)
    assert lists is not None
    return [Requirement(entry) for entry in re.findall(r'"([^"]+)"', lists.group())]


def pins(name: str) -> list[Requirement]:
    """The lines of a file of pins."""
    return [Requirement(line) for line in (ROOT / "requirements" / name).read_text().splitlines() if line[:1].isalpha()]


@pytest.mark.parametrize("name", ["server.txt", "test.txt"])
@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12"])
def test_pins_are_what_the_package_asks_for(name: str, python: str) -> None:
    here = {**default_environment(), "python_version": python, "python_full_version": f"{python}.9", "extra": ""}
    held = [pin for pin in pins(name) if pin.marker is None or pin.marker.evaluate(here)]
    versions = {canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in held}
    assert len(held) == len(versions), "one version of each package"
    asked = [need for need in wanted() if need.marker is None or need.marker.evaluate(here)]
    assert len(asked) > 20
    other = [
        f"{need}: {versions[canonicalize_name(need.name)]}"
        for need in asked
        if canonicalize_name(need.name) in versions
        and not need.specifier.contains(versions[canonicalize_name(need.name)], prereleases=True)
    ]
    assert not other
