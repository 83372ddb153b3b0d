"""``tunesmith device``: list devices; ``serve`` belongs to the server side."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from tunesmith.cli.options import Json, Key, Server, connect
from tunesmith.cli.output import emit, share, table
from tunesmith.cli.plugins import side_command
from tunesmith.client import Device
from tunesmith.types import DeviceHealth

COLUMNS = ("name", "state", "peak", "bandwidth", "noise floor", "drift", "classes")


class DeviceGroup(TyperGroup):
    """Knows the server side's ``device serve`` besides its own commands."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Own commands and ``serve``."""
        return [*self.commands, "serve"]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One command; ``serve`` is imported now."""
        if cmd_name == "serve":
            return side_command("serve", "device.serve", "Serve this machine's device to an RPC tracker.")
        return super().get_command(ctx, cmd_name)


app = typer.Typer(cls=DeviceGroup, help="Devices: list, serve.", no_args_is_help=True, add_completion=False)


@app.callback()
def _group() -> None:
    """Devices: list, serve."""


@app.command("list")
def list_(as_json: Json = False, server: Server = None, key: Key = None) -> None:
    """List devices that measure workers reported."""
    with connect(server, key) as client:
        devices = client.devices()
    rows = [(item.name, _state(item), *_figures(item), ", ".join(item.device_classes)) for item in devices]
    emit([item.model_dump(mode="json") for item in devices], table(COLUMNS, rows), as_json)


def _state(device: Device) -> str:
    health = f", {device.health.value}" if device.alive and device.health is not DeviceHealth.OK else ""
    return ("alive" if device.alive else "gone") + health + (", simulated" if device.simulated else "")


def _figures(device: Device) -> tuple[str, str, str, str]:
    """Peaks, bandwidth, noise floor and drift; dashes before the device was first used."""
    found = device.calibration
    if found is None:
        return ("–",) * 4
    narrow = [f"{name} {flops / 1e9:.4g}" for name, flops in found.narrow_flops.items()]
    return (
        "; ".join([f"{found.peak_flops / 1e9:.4g} GFLOP/s", *narrow]),
        f"{found.bandwidth / 1e9:.3g} GB/s",
        share(found.noise_floor),
        f"{found.drift:.2f}",
    )
