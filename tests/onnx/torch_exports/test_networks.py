"""The networks of transformers, small and with random weights, as both exporters write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch writes the models")
transformers = pytest.importorskip("transformers", reason="transformers has the networks")
pytest.importorskip("onnxscript", reason="torch's newer exporter needs it")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is the second witness")

WORDS = {"input_ids": ("ids", ("batch", "sequence"))}
MASKED = {**WORDS, "attention_mask": ("mask", ("batch", "sequence"))}
TRANSLATED = {**WORDS, "decoder_input_ids": ("ids", ("batch", "target"))}
IMAGE = {"pixel_values": ("real", ("batch", 3, 64, 64))}
DYNAMIC_IMAGE = {"pixel_values": ("real", ("batch", 3, "height", "width"))}

TEXTS = ({"batch": 2, "sequence": 12}, {"batch": 1, "sequence": 7}, {"batch": 3, "sequence": 19})
TRANSLATIONS = ({"batch": 2, "sequence": 12, "target": 5}, {"batch": 1, "sequence": 7, "target": 9})
BATCHES = ({"batch": 2}, {"batch": 1}, {"batch": 3})
IMAGES = (
    {"batch": 2, "height": 64, "width": 32},
    {"batch": 1, "height": 32, "width": 64},
    {"batch": 2, "height": 64, "width": 64},
)

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 48, "vocab_size": 99, "max_position_embeddings": 64}  # fmt: skip
DECODER = {**SMALL, "num_key_value_heads": 2, "use_cache": False}
BOTH = {"d_model": 32, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
        "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}  # fmt: skip
VISION = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
          "intermediate_size": 48, "image_size": 64, "patch_size": 16}  # fmt: skip
RESIDUAL = {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [2, 2]}


def made(name: str, config: str, **options: Any) -> Any:
    """A model of transformers from its own configuration."""
    kind = getattr(transformers, f"{config}Config")
    return getattr(transformers, f"{config}{name}")(kind(**options))


def whisper_encoder() -> Any:
    config = transformers.WhisperConfig(
        **BOTH, encoder_layers=2, decoder_layers=1, max_source_positions=30, vocab_size=99,
        num_mel_bins=16, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    return transformers.WhisperModel(config).encoder


def clip() -> Any:
    text = {**SMALL, "eos_token_id": 98}
    config = transformers.CLIPConfig(text_config=text, vision_config=VISION, projection_dim=16)
    return transformers.CLIPModel(config)


def detr() -> Any:
    backbone = transformers.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], out_features=["stage2"]
    )
    config = transformers.DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None,
        backbone_config=backbone, **BOTH, encoder_layers=2, decoder_layers=2, num_queries=10,
    )  # fmt: skip
    return transformers.DetrForObjectDetection(config)


CLASSES = "ForImageClassification"
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": 99}
SWIN = {"image_size": 64, "patch_size": 4, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4],
        "window_size": 4}  # fmt: skip
SEGFORMER = {"depths": [1] * 4, "hidden_sizes": [8, 16, 16, 24], "decoder_hidden_size": 16,
             "num_attention_heads": [1, 2, 2, 4]}  # fmt: skip
EFFICIENT = {"image_size": 64, "width_coefficient": 0.25, "depth_coefficient": 0.25,
             "hidden_dim": 320}  # fmt: skip
MOBILE_VIT = {"image_size": 64, "hidden_sizes": [16, 24, 32], "num_attention_heads": 4,
              "neck_hidden_sizes": [8, 8, 16, 16, 24, 24, 32]}  # fmt: skip
WAVES = {"conv_dim": (16, 16), "conv_stride": (5, 2), "conv_kernel": (10, 3),
         "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4}  # fmt: skip

TEXT: Mapping[str, tuple[Any, str]] = {
    "bert": (partial(made, "Model", "Bert", **SMALL), "last_hidden_state"),
    "distilbert": (
        partial(made, "Model", "DistilBert", dim=32, n_layers=2, n_heads=4, hidden_dim=48,
                vocab_size=99, max_position_embeddings=64), "last_hidden_state"),
    "roberta": (partial(made, "Model", "Roberta", **SMALL), "last_hidden_state"),
    "albert": (partial(made, "Model", "Albert", embedding_size=16, **SMALL), "last_hidden_state"),
    "electra": (partial(made, "Model", "Electra", embedding_size=16, **SMALL), "last_hidden_state"),
    "deberta": (
        partial(made, "Model", "DebertaV2", relative_attention=True, position_buckets=8,
                pos_att_type=["p2c", "c2p"], type_vocab_size=0, **SMALL), "last_hidden_state"),
    "gpt2": (
        partial(made, "LMHeadModel", "GPT2", n_embd=32, n_layer=2, n_head=4, n_positions=64,
                vocab_size=99, use_cache=False), "logits"),
    "gpt_neox": (partial(made, "Model", "GPTNeoX", use_cache=False, **SMALL), "last_hidden_state"),
    "llama": (partial(made, "ForCausalLM", "Llama", **DECODER), "logits"),
    "mistral": (partial(made, "Model", "Mistral", sliding_window=8, **DECODER),
                "last_hidden_state"),
    "qwen2": (partial(made, "Model", "Qwen2", **DECODER), "last_hidden_state"),
    "phi": (partial(made, "Model", "Phi", use_cache=False, **SMALL), "last_hidden_state"),
    "gemma": (partial(made, "Model", "Gemma", head_dim=8, **DECODER), "last_hidden_state"),
    "opt": (
        partial(made, "Model", "OPT", ffn_dim=48, word_embed_proj_dim=32, use_cache=False, **SMALL),
        "last_hidden_state"),
}  # fmt: skip

IMAGED: Mapping[str, tuple[Any, str]] = {
    "vit": (partial(made, CLASSES, "ViT", **VISION), "logits"),
    "deit": (partial(made, CLASSES, "DeiT", **VISION), "logits"),
    "beit": (partial(made, CLASSES, "Beit", **VISION), "logits"),
    "dinov2": (partial(made, "Model", "Dinov2", **VISION), "last_hidden_state"),
    "swin": (partial(made, CLASSES, "Swin", **SWIN), "logits"),
    "resnet": (partial(made, CLASSES, "ResNet", **RESIDUAL), "logits"),
    "regnet": (partial(made, CLASSES, "RegNet", groups_width=8, **RESIDUAL), "logits"),
    "mobilenet_v1": (
        partial(made, CLASSES, "MobileNetV1", depth_multiplier=0.25, image_size=64), "logits"),
    "mobilenet_v2": (
        partial(made, CLASSES, "MobileNetV2", depth_multiplier=0.25, image_size=64), "logits"),
    "mobilevit": (partial(made, CLASSES, "MobileViT", **MOBILE_VIT), "logits"),
    "convnext": (
        partial(made, CLASSES, "ConvNext", hidden_sizes=[16, 32], depths=[1, 2], num_stages=2),
        "logits"),
    "efficientnet": (partial(made, CLASSES, "EfficientNet", **EFFICIENT), "logits"),
    "segformer": (partial(made, "ForSemanticSegmentation", "Segformer", **SEGFORMER), "logits"),
    "yolos": (
        partial(made, "ForObjectDetection", "Yolos", num_detection_tokens=5,
                **{**VISION, "image_size": [64, 64]}), "logits"),
}  # fmt: skip

DYNAMIC_IMAGED = ("resnet", "convnext", "mobilenet_v2", "efficientnet", "segformer", "swin")

OTHERS: Mapping[str, tuple[Any, Any, Any, tuple[str, ...]]] = {
    "t5": (partial(made, "Model", "T5", use_cache=False, **T5), TRANSLATED, TRANSLATIONS,
           ("last_hidden_state",)),
    "bart": (
        partial(made, "Model", "Bart", encoder_layers=2, decoder_layers=2, vocab_size=99,
                max_position_embeddings=64, use_cache=False, **BOTH),
        TRANSLATED, TRANSLATIONS, ("last_hidden_state",)),
    "whisper encoder": (whisper_encoder, {"input_features": ("real", ("batch", 16, 60))}, BATCHES,
                        ("last_hidden_state",)),
    "clip": (clip, {**MASKED, "pixel_values": ("real", ("images", 3, 64, 64))},
             ({"batch": 2, "sequence": 12, "images": 3}, {"batch": 1, "sequence": 7, "images": 2}),
             ("logits_per_image", "text_embeds")),
    "wav2vec2": (
        partial(made, "Model", "Wav2Vec2", **WAVES, **{**SMALL, "vocab_size": 32}),
        {"input_values": ("real", ("batch", "samples"))},
        ({"batch": 2, "samples": 60}, {"batch": 1, "samples": 43}), ("last_hidden_state",)),
    "detr": (detr, IMAGE, BATCHES, ("logits", "pred_boxes")),
}  # fmt: skip

every_way = pytest.mark.parametrize("open_", [False, True], ids=["static", "open"])
both_exporters = pytest.mark.parametrize("exporter", ["script", "dynamo"])


def caller(inputs: Mapping[str, Any], *picks: str) -> Callable[..., Any]:
    """Runs a model on inputs by position; gives the outputs that are picked."""

    def call(model: Any, *values: Any) -> Any:
        found = model(**dict(zip(inputs, values, strict=True)))
        return tuple(found[pick] for pick in picks)

    return call


@pytest.mark.slow
@every_way
@both_exporters
@pytest.mark.parametrize("name", TEXT)
def test_a_network_that_reads(
    name: str, exporter: str, open_: bool, network: Any, agrees: Callable[..., None]
) -> None:
    make, pick = TEXT[name]
    agrees(network(make, MASKED, TEXTS, caller(MASKED, pick)), exporter, open_)


@pytest.mark.slow
@every_way
@both_exporters
@pytest.mark.parametrize("name", IMAGED)
def test_a_network_that_sees(
    name: str, exporter: str, open_: bool, network: Any, agrees: Callable[..., None]
) -> None:
    make, pick = IMAGED[name]
    agrees(network(make, IMAGE, BATCHES, caller(IMAGE, pick)), exporter, open_)


@pytest.mark.slow
@pytest.mark.parametrize("name", DYNAMIC_IMAGED)
def test_a_network_that_sees_images_of_any_size(
    name: str, network: Any, agrees: Callable[..., None]
) -> None:
    make, pick = IMAGED[name]
    agrees(network(make, DYNAMIC_IMAGE, IMAGES, caller(DYNAMIC_IMAGE, pick)), "script", True)


@pytest.mark.slow
@every_way
@both_exporters
@pytest.mark.parametrize("name", OTHERS)
def test_another_network(
    name: str, exporter: str, open_: bool, network: Any, agrees: Callable[..., None]
) -> None:
    make, inputs, sizes, picks = OTHERS[name]
    agrees(network(make, inputs, sizes, caller(inputs, *picks)), exporter, open_)
