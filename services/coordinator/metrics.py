"""Prometheus metrics. Counters live in this process; what the database knows is read when somebody scrapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

GAUGES = {
    "jobs": ("tunesmith_jobs", "Jobs by state.", "state"),
    "models": ("tunesmith_models", "Models by state; variants are not counted.", "state"),
    "rounds": ("tunesmith_rounds_in_flight", "Rounds under way by state.", "state"),
    "trials": ("tunesmith_trials", "Measured candidates by failure, `ok` for those that ran.", "failure"),
    "refused": ("tunesmith_reports_refused", "Reports of measure workers that were refused.", "reason"),
    "devices": ("tunesmith_devices", "Devices: alive, of them in quarantine, and gone.", "state"),
    "drift": ("tunesmith_device_drift", "Latency of a device's calibration kernel over that at first.", "device"),
    "noise_floor": ("tunesmith_device_noise_floor", "Share by which two medians of one kernel may differ.", "device"),
    "peak_flops": ("tunesmith_device_peak_flops", "Peak of a device in FLOP/s, float32.", "device"),
    "bandwidth": ("tunesmith_device_bandwidth_bytes", "Bytes per second that a device reads from memory.", "device"),
}


class Metrics:
    """One registry for each application, so that two of them in a process do not meet."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.dispatches = Counter(
            "tunesmith_dispatches", "Messages handed to the broker.", ["task"], registry=self.registry
        )
        self.retries = Counter(
            "tunesmith_retries",
            "Work sent again, because nobody took it or its worker's heartbeat stopped.",
            ["work", "reason"],
            registry=self.registry,
        )
        self.loop_seconds = Histogram(
            "tunesmith_loop_seconds",
            "Duration of one pass of the scheduling loop.",
            registry=self.registry,
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
        )
        self.loop_failures = Counter("tunesmith_loop_failures", "Passes that failed.", registry=self.registry)

    def watch(self, read: Callable[[], dict[str, dict[str, float]]]) -> None:
        """Serve gauges from ``read``, which gives numbers by gauge and label."""
        self.registry.register(_Gauges(read))

    def text(self) -> bytes:
        """The exposition."""
        return generate_latest(self.registry)


class _Gauges(Collector):
    def __init__(self, read: Callable[[], dict[str, dict[str, float]]]) -> None:
        self._read = read

    def describe(self) -> Iterator[Metric]:
        """Names without reading anything."""
        for name, text, label in GAUGES.values():
            yield GaugeMetricFamily(name, text, labels=[label])

    def collect(self) -> Iterator[Metric]:
        """Values as of now."""
        found: dict[str, Any] = self._read()
        for key, (name, text, label) in GAUGES.items():
            family = GaugeMetricFamily(name, text, labels=[label])
            for value, number in found.get(key, {}).items():
                family.add_metric([value], number)
            yield family
