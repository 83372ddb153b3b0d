"""Networks of torchvision, timm and transformers: the published widths, and few layers of the large ones."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tunesmith.errors import MissingDependency

EXTRAS = "requirements/architectures.txt"
VOCABULARY, WORDS = 1000, 32
"""Words of a language model, and of its input."""

KEPT: list[Any] = []
"""Declarations, which last as long as they are held."""


@dataclass(frozen=True)
class Architecture:
    """A network that can be made.

    Attributes:
        name: what its library calls it.
        library: the package.
        make: makes it, with random weights, from the package.
        shape: shape of its input.
        whole_numbers: the input has words' numbers instead of pixels or sounds.
    """

    name: str
    library: str
    make: Callable[[Any], Any]
    shape: tuple[int, ...]
    whole_numbers: bool = False

    def network(self) -> Any:
        """The network, in PyTorch.

        Raises:
            MissingDependency: its library is not installed.
        """
        try:
            _import_torchvision()
            package = importlib.import_module(self.library)
        except ImportError as error:
            raise MissingDependency(
                f"{self.name} needs the package {error.name}, which is not installed: pip install -r {EXTRAS}"
            ) from error
        return self.make(package)


def _import_torchvision() -> None:
    """Import torchvision, which timm and transformers import too, also beside a PyTorch that cannot load its operators.

    PyPI's is built for CUDA. None of these networks has such an operator, but the package declares what they compute.
    """
    try:
        importlib.import_module("torchvision")
    except ImportError:
        return  # whoever needs it says so
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
        import torch

        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor boxes, Tensor scores, float least_overlap) -> Tensor")
        KEPT.append(library)
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        importlib.import_module("torchvision")


def _vision(name: str, side: int = 64, **options: Any) -> Architecture:
    return Architecture(
        name, "torchvision", lambda package: getattr(package.models, name)(weights=None, **options), (1, 3, side, side)
    )


def _timm(name: str, side: int, **options: Any) -> Architecture:
    return Architecture(
        name, "timm", lambda package: package.create_model(name, pretrained=False, **options), (1, 3, side, side)
    )


def _language(model: str, config: str, options: Mapping[str, Any]) -> Architecture:
    return _transformers(model, config, {"vocab_size": VOCABULARY, **options}, (1, WORDS), whole_numbers=True)


def _transformers(
    model: str, config: str, options: Mapping[str, Any], shape: tuple[int, ...], whole_numbers: bool = False
) -> Architecture:
    def make(package: Any) -> Any:
        return getattr(package, model)(getattr(package, config)(**options))

    return Architecture(model, "transformers", make, shape, whole_numbers)


ARCHITECTURES: Sequence[Architecture] = (
    _vision("resnet18"),
    _vision("mobilenet_v3_small"),
    _vision("efficientnet_b0"),
    _vision("densenet121"),
    _vision("shufflenet_v2_x1_0"),
    _vision("squeezenet1_1"),
    _vision("googlenet", aux_logits=False, init_weights=False, transform_input=True),
    _vision("inception_v3", 96, aux_logits=False, init_weights=False),
    _vision("regnet_y_400mf"),
    _vision("mnasnet1_0"),
    _vision("convnext_tiny"),
    _vision("swin_t"),
    _vision("vit_b_16", image_size=64),
    _timm("mixer_s16_224", 224),
    _timm("deit_tiny_patch16_224", 224),
    _timm("poolformer_s12", 64),
    _timm("convmixer_768_32", 56),
    _timm("ghostnet_100", 64),
    _language("BertModel", "BertConfig", {"num_hidden_layers": 2}),
    _language("DistilBertModel", "DistilBertConfig", {"n_layers": 2}),
    _language("GPT2Model", "GPT2Config", {"n_layer": 2, "use_cache": False}),
    _language(
        "LlamaModel",
        "LlamaConfig",
        {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 2, "num_attention_heads": 12}
        | {"num_key_value_heads": 4, "use_cache": False},
    ),
    _language("T5EncoderModel", "T5Config", {"num_layers": 2, "attn_implementation": "eager"}),
    _transformers(
        "CLIPVisionModel",
        "CLIPVisionConfig",
        {"num_hidden_layers": 2, "image_size": 64, "patch_size": 16},
        (1, 3, 64, 64),
    ),
)
