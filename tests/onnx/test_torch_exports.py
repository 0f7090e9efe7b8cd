"""Networks as PyTorch writes them: exported, converted, compiled, and held against torch.

Each is small and has random weights. Both exporters write it, with fixed and with open extents;
one compiled model then takes several sizes.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

import tvm_nnef

torch = pytest.importorskip("torch", reason="torch writes the models")
transformers = pytest.importorskip("transformers", reason="transformers has the models")
pytest.importorskip("onnxscript", reason="torch's newer exporter needs it")
nn = torch.nn

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Network:
    """A network and what it takes: by input, a kind of values and a shape with names in it."""

    make: Callable[[], Any]
    inputs: Mapping[str, tuple[str, tuple[int | str, ...]]]
    sizes: Sequence[Sizes] = ({},)
    pick: Callable[[Any], Any] = lambda found: found
    call: Callable[..., Any] | None = None


class Wrapped(nn.Module):
    """A model that takes its inputs by position and gives a tuple."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.names = tuple(network.inputs)
        self.network = network
        self.model = _calibrated(network.make(), network)

    def forward(self, *values: Any) -> Any:
        if self.network.call is not None:
            found = self.network.call(self.model, *values)
        else:
            found = self.model(**dict(zip(self.names, values, strict=True)))
        return self.network.pick(found)


def _calibrated(model: Any, network: Network) -> Any:
    """Weights and running statistics that keep activations in range."""
    norms = [each for each in model.modules() if isinstance(each, nn.modules.batchnorm._BatchNorm)]
    for each in model.modules():
        if isinstance(each, (nn.Conv1d, nn.Conv2d)) and norms:
            nn.init.kaiming_normal_(each.weight)
    for each in norms:
        each.momentum = None
    if norms:
        values = [
            tensor(*each, {**network.sizes[0], "batch": 4}) for each in network.inputs.values()
        ]
        model.train()
        with torch.no_grad():
            if network.call is not None:
                network.call(model, *values)
            else:
                model(**dict(zip(network.inputs, values, strict=True)))
    return model.eval()


def tensor(kind: str, shape: Sequence[int | str], sizes: Sizes) -> Any:
    """Values of a kind: reals, identifiers of words, or a mask whose last item is off."""
    extents = [sizes[each] if isinstance(each, str) else each for each in shape]
    match kind:
        case "real":
            return torch.randn(extents)
        case "ids":
            return torch.randint(1, 90, extents)
        case "mask":
            mask = torch.ones(extents, dtype=torch.int64)
            mask[0, -1] = 0
            return mask
        case "lengths":
            return torch.arange(extents[0] + 1, 1, -1)
        case _:
            raise ValueError(kind)


TEXT = {"input_ids": ("ids", ("batch", "sequence"))}
MASKED = {**TEXT, "attention_mask": ("mask", ("batch", "sequence"))}
IMAGE = {"pixel_values": ("real", ("batch", 3, 64, 64))}
TEXTS = ({"batch": 2, "sequence": 12}, {"batch": 1, "sequence": 7}, {"batch": 3, "sequence": 19})
BATCHES = ({"batch": 2}, {"batch": 1}, {"batch": 5})
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 48, "vocab_size": 99, "max_position_embeddings": 64}  # fmt: skip
VISION = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
          "intermediate_size": 48, "image_size": 64, "patch_size": 16}  # fmt: skip


def _of(name: str, config: str = "", **options: Any) -> Any:
    kind = getattr(transformers, config or _config_of(name))
    return getattr(transformers, name)(kind(**options))


def _config_of(name: str) -> str:
    stem = name
    for end in ("Model", "For", "LMHead", "Encoder"):
        stem = stem.partition(end)[0] if end in stem[1:] else stem
    return f"{stem}Config"


def text(
    name: str, inputs: Any = MASKED, pick: str = "last_hidden_state", **options: Any
) -> Network:
    """A network of transformers that reads words."""
    return Network(
        partial(_of, name, **{**SMALL, **options}), inputs, TEXTS, lambda found: found[pick]
    )


def image(name: str, pick: str = "logits", **options: Any) -> Network:
    """A network of transformers that sees images."""
    return Network(partial(_of, name, **options), IMAGE, BATCHES, lambda found: found[pick])


def _gpt2() -> Network:
    return text(
        "GPT2LMHeadModel",
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=64,
        pick="logits",
        use_cache=False,
        hidden_size=32,
    )


NETWORKS: dict[str, Network] = {
    "bert": text("BertModel"),
    "distilbert": text("DistilBertModel", dim=32, n_layers=2, n_heads=4, hidden_dim=48),
    "roberta": text("RobertaModel"),
    "albert": text("AlbertModel", embedding_size=16),
    "electra": text("ElectraModel", embedding_size=16),
    "deberta": text(
        "DebertaV2Model",
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        position_buckets=8,
        type_vocab_size=0,
    ),
    "gpt2": text(
        "GPT2LMHeadModel",
        pick="logits",
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=64,
        use_cache=False,
    ),
    "gpt_neox": text("GPTNeoXModel", use_cache=False),
    "llama": text("LlamaForCausalLM", pick="logits", num_key_value_heads=2, use_cache=False),
    "mistral": text("MistralModel", num_key_value_heads=2, use_cache=False, sliding_window=8),
    "qwen2": text("Qwen2Model", num_key_value_heads=2, use_cache=False),
    "phi": text("PhiModel", use_cache=False),
    "gemma": text("GemmaModel", num_key_value_heads=2, head_dim=8, use_cache=False),
    "opt": text("OPTModel", ffn_dim=48, word_embed_proj_dim=32, use_cache=False),
    "t5": Network(
        partial(
            _of,
            "T5Model",
            d_model=32,
            d_kv=8,
            d_ff=48,
            num_layers=2,
            num_heads=4,
            vocab_size=99,
            use_cache=False,
        ),
        {**TEXT, "decoder_input_ids": ("ids", ("batch", "target"))},
        ({"batch": 2, "sequence": 12, "target": 5}, {"batch": 1, "sequence": 7, "target": 9}),
        lambda f: f["last_hidden_state"],
    ),
    "bart": Network(
        partial(
            _of,
            "BartModel",
            d_model=32,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=48,
            decoder_ffn_dim=48,
            vocab_size=99,
            max_position_embeddings=64,
            use_cache=False,
        ),
        {**TEXT, "decoder_input_ids": ("ids", ("batch", "target"))},
        ({"batch": 2, "sequence": 12, "target": 5}, {"batch": 1, "sequence": 7, "target": 9}),
        lambda f: f["last_hidden_state"],
    ),
    "whisper_encoder": Network(
        lambda: (
            transformers.WhisperModel(
                transformers.WhisperConfig(
                    d_model=32,
                    encoder_layers=2,
                    encoder_attention_heads=4,
                    encoder_ffn_dim=48,
                    decoder_layers=1,
                    decoder_attention_heads=4,
                    decoder_ffn_dim=48,
                    max_source_positions=30,
                    vocab_size=99,
                    num_mel_bins=16,
                    pad_token_id=0,
                    bos_token_id=1,
                    eos_token_id=2,
                    decoder_start_token_id=1,
                )
            ).encoder
        ),
        {"input_features": ("real", ("batch", 16, 60))},
        BATCHES,
        lambda f: f["last_hidden_state"],
    ),
    "wav2vec2": Network(
        partial(
            _of,
            "Wav2Vec2Model",
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=48,
            conv_dim=(16, 16),
            conv_stride=(5, 2),
            conv_kernel=(10, 3),
            num_conv_pos_embeddings=8,
            num_conv_pos_embedding_groups=4,
        ),
        {"input_values": ("real", ("batch", "samples"))},
        ({"batch": 2, "samples": 400}, {"batch": 1, "samples": 333}),
        lambda f: f["last_hidden_state"],
    ),
    "clip": Network(
        lambda: transformers.CLIPModel(
            transformers.CLIPConfig(
                text_config={**SMALL, "eos_token_id": 98}, vision_config=VISION, projection_dim=16
            )
        ),
        {**MASKED, **{"pixel_values": ("real", ("images", 3, 64, 64))}},
        tuple({**each, "images": n} for each, n in zip(TEXTS, (1, 3, 2), strict=True)),
        lambda f: (f["logits_per_image"], f["text_embeds"]),
    ),
    "vit": image("ViTForImageClassification", **VISION),
    "deit": image("DeiTForImageClassification", **VISION),
    "beit": image("BeitForImageClassification", **VISION),
    "dinov2": image("Dinov2Model", pick="last_hidden_state", **{**VISION}),
    "swin": image(
        "SwinForImageClassification",
        image_size=64,
        patch_size=4,
        embed_dim=16,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
    ),
    "resnet": image(
        "ResNetForImageClassification", embedding_size=16, hidden_sizes=[16, 32], depths=[2, 2]
    ),
    "regnet": image(
        "RegNetForImageClassification",
        embedding_size=16,
        hidden_sizes=[16, 32],
        depths=[2, 2],
        groups_width=8,
    ),
    "mobilenet_v1": image(
        "MobileNetV1ForImageClassification", depth_multiplier=0.25, image_size=64
    ),
    "mobilenet_v2": image(
        "MobileNetV2ForImageClassification", depth_multiplier=0.25, image_size=64
    ),
    "mobilevit": image(
        "MobileViTForImageClassification",
        image_size=64,
        hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[8, 8, 16, 16, 24, 24, 32],
        num_attention_heads=4,
    ),
    "convnext": image(
        "ConvNextForImageClassification", hidden_sizes=[16, 32], depths=[1, 2], num_stages=2
    ),
    "efficientnet": image(
        "EfficientNetForImageClassification",
        image_size=64,
        width_coefficient=0.25,
        depth_coefficient=0.25,
        hidden_dim=64,
    ),
    "segformer": image(
        "SegformerForSemanticSegmentation",
        depths=[1, 1, 1, 1],
        hidden_sizes=[8, 16, 16, 24],
        num_attention_heads=[1, 2, 2, 4],
        decoder_hidden_size=16,
    ),
    "detr": Network(
        lambda: transformers.DetrForObjectDetection(
            transformers.DetrConfig(
                use_timm_backbone=False,
                use_pretrained_backbone=False,
                backbone=None,
                backbone_config=transformers.ResNetConfig(
                    embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], out_features=["stage2"]
                ),
                d_model=32,
                encoder_layers=2,
                decoder_layers=2,
                encoder_attention_heads=4,
                decoder_attention_heads=4,
                encoder_ffn_dim=48,
                decoder_ffn_dim=48,
                num_queries=10,
            )
        ),
        IMAGE,
        BATCHES,
        lambda f: (f["logits"], f["pred_boxes"]),
    ),
    "yolos": image(
        "YolosForObjectDetection", **{**VISION, "image_size": [64, 64], "num_detection_tokens": 5}
    ),
    "dpt": image(
        "DPTForDepthEstimation",
        pick="predicted_depth",
        **{
            **VISION,
            "backbone_out_indices": [0, 1, 2, 3],
            "neck_hidden_sizes": [8, 8, 16, 16],
            "fusion_hidden_size": 8,
            "num_hidden_layers": 4,
        },
    ),
}
