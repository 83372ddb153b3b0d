"""A small BERT-like encoder, exported by torch."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm_attention, self.norm_feed_forward = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        size = width // self.heads
        query, key, value = self.qkv(x).reshape(batch, tokens, 3, self.heads, size).permute(2, 0, 3, 1, 4).unbind(0)
        attention = torch.softmax(query @ key.transpose(-1, -2) / size**0.5, dim=-1)
        mixed = (attention @ value).transpose(1, 2).reshape(batch, tokens, width)
        x = self.norm_attention(x + self.out(mixed))
        return self.norm_feed_forward(x + self.down(nn.functional.gelu(self.up(x))))


class Encoder(nn.Module):
    """Token ids int64 [batch, tokens] to scores float32 [batch, tokens, 8]."""

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 2, tokens: int = 32, words: int = 500) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.position = nn.Parameter(torch.randn(tokens, width))
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.classes = nn.Linear(width, 8)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids) + self.position[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.classes(x)


def save(module: nn.Module, args: tuple[torch.Tensor, ...], path: Path, dynamic: dict[str, Any] | None = None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch deprecates its own calls
        torch.export.save(torch.export.export(module.eval(), args, dynamic_shapes=dynamic), path)
