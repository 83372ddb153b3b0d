"""Examples at the end of every ``--help``; a test runs each through the parser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "tune": (
        "tunesmith tune model.onnx --time 300 --out tuned",
        "tunesmith tune model.pt2 --input x=1,3,224,224 --trials 500",
        "tunesmith tune gemm:1024x1024x1024:float32 --until-converged",
        "tunesmith tune model.onnx --server build-host:8700 --tag nightly",
        "tunesmith tune m.onnx --precision int8 --calibration m.npz --out out",
    ),
    "best": ("tunesmith best JOB -o best.jsonl", "tunesmith best JOB --format metaschedule -o tuned"),
    "mcp": ("tunesmith mcp --server lab:8700 --author my-agent",),
    "version": ("tunesmith version --json",),
    "jobs list": ("tunesmith jobs list --state running", "tunesmith jobs list --tag nightly"),
    "jobs show": ("tunesmith jobs show JOB",),
    "jobs watch": ("tunesmith jobs watch JOB", "tunesmith jobs watch JOB --json"),
    "jobs cancel": ("tunesmith jobs cancel JOB",),
    "jobs pause": ("tunesmith jobs pause JOB",),
    "jobs resume": ("tunesmith jobs resume JOB",),
    "jobs set": (
        "tunesmith jobs set JOB --priority 5 --trials 2000",
        "tunesmith jobs set JOB --tag nightly --tag resnet --comment seed-3",
    ),
    "jobs delete": ("tunesmith jobs delete JOB",),
    "trials list": ("tunesmith trials list JOB --limit 10",),
    "trials show": ("tunesmith trials show JOB 17",),
    "trials knobs": ("tunesmith trials knobs JOB 4",),
    "trials proposals": ("tunesmith trials proposals JOB 4",),
    "propose": (
        "tunesmith propose JOB 4 candidates.json --wait",
        "tunesmith propose JOB 4 --knob unroll=2 --knob T_add.loop_0=8,32",
    ),
    "trials program": ("tunesmith trials program JOB 17 --diff",),
    "models list": ("tunesmith models list --limit 10",),
    "models upload": ("tunesmith models upload model.onnx --input x=1,3,224,224",),
    "models show": ("tunesmith models show MODEL",),
    "models delete": ("tunesmith models delete MODEL",),
    "dataset collect": (
        "tunesmith dataset collect --workloads list.txt --per-task 256",
        "tunesmith dataset collect --models model.onnx --sampler guided",
        "tunesmith dataset collect --families conv2d,gemm --time 3600",
    ),
    "quantize": ("tunesmith quantize model.onnx --calibration samples.npz -o int8.onnx",),
    "keys list": ("tunesmith keys list",),
    "keys create": ("tunesmith keys create --owner ann --scope user",),
    "keys audit": ("tunesmith keys audit --owner ann --limit 20",),
    "keys revoke": ("tunesmith keys revoke KEY",),
    "device list": ("tunesmith device list --server lab:8700",),
    "device serve": ("tunesmith device serve --key lab-cpu --tracker lab:9190",),
    "workloads list": ("tunesmith workloads list --family conv2d",),
    "workloads show": ("tunesmith workloads show HASH",),
    "records list": ("tunesmith records list --workload HASH --sort latency",),
    "records stats": ("tunesmith records stats --target llvm-znver4-16",),
    "records export": ("tunesmith records export conv2d.parquet --family conv2d",),
    "records import": ("tunesmith records import conv2d.parquet", "tunesmith records import tuned/best.jsonl"),
    "workloads revoke": ("tunesmith workloads revoke HASH --target llvm-znver4-16",),
    "costmodels list": ("tunesmith costmodels list --limit 10",),
    "costmodels show": ("tunesmith costmodels show COSTMODEL",),
    "costmodels train": ("tunesmith costmodels train --target llvm-znver4-16",),
    "costmodels evaluate": ("tunesmith costmodels evaluate .tunesmith --contender ranker --json",),
    "up": ("tunesmith up", "tunesmith up --detach --port 8800 --data-dir work"),
    "status": ("tunesmith status", "tunesmith status --data-dir work --json"),
    "down": ("tunesmith down", "tunesmith down --data-dir work --timeout 60"),
    "worker": ("tunesmith worker --join .tunesmith --queues search",),
    "worker enrol": ("tunesmith worker enrol --name lab-4",),
    "worker list": ("tunesmith worker list",),
    "worker revoke": ("tunesmith worker revoke WORKER --results",),
    "worker broker-users": ("tunesmith worker broker-users",),
    "compile": ("tunesmith compile model.onnx --log tuned/best.jsonl -o model.so",),
    "verify": ("tunesmith verify tuned/best.jsonl",),
    "compare": ("tunesmith compare model.onnx --log tuned/best.jsonl",),
    "doctor": ("tunesmith doctor",),
    "bench tuners": ("tunesmith bench tuners --quick",),
    "bench operators": ("tunesmith bench operators --quick",),
    "bench search": ("tunesmith bench search --quick",),
    "bench models": ("tunesmith bench models --quick",),
    "bench pretrained": ("tunesmith bench pretrained --seeds 1 --operator gemm:128x768x3072",),
    "bench seams": ("tunesmith bench seams --seconds 60",),
    "bench starts": ("tunesmith bench starts --model squeezenet --seeds 1",),
    "bench answers": ("tunesmith bench answers --count 14 --trials 32",),
    "bench guides": ("tunesmith bench guides --count 28 --seed 53",),
    "bench chains": ("tunesmith bench chains --operator gemm:1024x1024x1024 --seconds 30",),
    "bench accuracy": ("tunesmith bench accuracy --seeds 1",),
    "bench peak": ("tunesmith bench peak",),
    "bench replay": ("tunesmith bench replay",),
    "bench replay collect": ("tunesmith bench replay collect",),
    "bench replay tune": ("tunesmith bench replay tune genetic",),
    "bench replay static": ("tunesmith bench replay static",),
    "bench replay rates": ("tunesmith bench replay rates",),
    "bench replay guides": ("tunesmith bench replay guides ranker.json",),
    "bench allocation": ("tunesmith bench allocation",),
    "bench allocation collect": ("tunesmith bench allocation collect",),
    "bench allocation live": ("tunesmith bench allocation live --seconds 60",),
    "bench fleet": ("tunesmith bench fleet",),
    "bench faults": ("tunesmith bench faults --runs 1",),
    "bench pages": ("tunesmith bench pages --tasks 1000",),
    "bench dashboard": ("tunesmith bench dashboard --records 50000 --loads 1",),
    "bench records": ("tunesmith bench records --records 100000",),
    "bench yardstick": ("tunesmith bench yardstick --runs 1",),
    "bench gpu": ("tunesmith bench gpu", "tunesmith bench gpu --operator gemm:4096x4096x4096:float16"),
    "bench measure": ("tunesmith bench measure --quick",),
    "bundle": ("tunesmith bundle JOB -o result.zip", "tunesmith bundle best.jsonl --model model.onnx -o result.zip"),
    "rerun": ("tunesmith rerun result.zip",),
    "prune": ("tunesmith prune --job-days 30 --dry-run",),
    "backup": ("tunesmith backup tunesmith.tar.gz",),
    "restore": ("tunesmith restore tunesmith.tar.gz --data-dir fresh",),
}
"""By the command's words."""


def with_examples(command: Any, words: str) -> Any:
    """The command, and those of a group below it, with plain help that ends with examples.

    Help in boxes cuts names of options short in a terminal of 80 columns, and so does a list of commands without a
    summary of its own.
    """
    command.rich_markup_mode = None
    command.short_help = command.short_help or " ".join((command.help or "").split("\n\n")[0].split())
    if words in EXAMPLES:
        head = "Examples:" if len(EXAMPLES[words]) > 1 else "Example:"
        command.epilog = "\n  ".join(("\b", head, *EXAMPLES[words])).replace("\b\n  ", "\b\n")
    for name, child in getattr(command, "commands", {}).items():
        with_examples(child, f"{words} {name}".strip())
    return command
