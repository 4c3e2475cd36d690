"""The same weights give the same outputs in independent implementations: torch.nn and Hugging Face transformers."""

import pytest
import torch
from torch import Tensor, nn

from jumok.models.base import PAD
from jumok.models.transformer import Transformer
from jumok.nn.positions import sinusoid
from tests.support.helpers import SYMBOLS, made, two_sentences


def copy_linear(theirs: nn.Linear, weight: Tensor, bias: Tensor) -> None:
    theirs.weight.data.copy_(weight)
    theirs.bias.data.copy_(bias)


def randomize(model: Transformer) -> Transformer:
    """Fill what starts at zero or one, so that a forgotten bias or norm shows."""
    torch.manual_seed(4)
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data.add_(torch.randn_like(parameter) * 0.1)
    return model


def as_torch(model: Transformer) -> nn.Transformer:
    """torch's Transformer with our weights."""
    c = model.config
    theirs = nn.Transformer(
        c.d_model, c.heads, c.encoder_layers, c.decoder_layers, c.d_ff, 0.0, batch_first=True,
        norm_first=c.norm_place == "pre", dtype=torch.float64,
    ).eval()  # fmt: skip
    for mine, other in zip(model.encoder, theirs.encoder.layers, strict=True):
        copy_attention(other.self_attn, mine.attention.qkv.weight, mine.attention.qkv.bias, mine.attention.output)
        copy_rest(other, mine, (("norm1", mine.attention_path), ("norm2", mine.feed_forward_path)))
    for mine, other in zip(model.decoder, theirs.decoder.layers, strict=True):
        copy_attention(other.self_attn, mine.attention.qkv.weight, mine.attention.qkv.bias, mine.attention.output)
        weight = torch.cat([mine.cross.query.weight, mine.cross.memory.weight])
        bias = torch.cat([mine.cross.query.bias, mine.cross.memory.bias])
        copy_attention(other.multihead_attn, weight, bias, mine.cross.output)
        paths = (("norm1", mine.attention_path), ("norm2", mine.cross_path), ("norm3", mine.feed_forward_path))
        copy_rest(other, mine, paths)
    if c.norm_place == "pre":
        theirs.encoder.norm.load_state_dict(model.encoder_norm.state_dict())
        theirs.decoder.norm.load_state_dict(model.decoder_norm.state_dict())
    else:
        theirs.encoder.norm = theirs.decoder.norm = None  # torch adds one more norm than the paper has
    return theirs


def copy_attention(theirs: nn.MultiheadAttention, weight: Tensor, bias: Tensor, output: nn.Linear) -> None:
    theirs.in_proj_weight.data.copy_(weight)
    theirs.in_proj_bias.data.copy_(bias)
    copy_linear(theirs.out_proj, output.weight, output.bias)


def copy_rest(theirs: nn.Module, mine: nn.Module, paths) -> None:
    copy_linear(theirs.linear1, mine.feed_forward.inner.weight, mine.feed_forward.inner.bias)
    copy_linear(theirs.linear2, mine.feed_forward.outer.weight, mine.feed_forward.outer.bias)
    for name, path in paths:
        getattr(theirs, name).load_state_dict(path.norm.state_dict())


@pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:.*nested tensor", "ignore:Converting mask")
@pytest.mark.parametrize("place", ["post", "pre"])
def test_the_transformer_equals_torch_nn_transformer_given_the_same_weights(place):
    ours = randomize(made(norm_place=place))
    theirs = as_torch(ours)
    source, target = two_sentences()

    def embedded(tokens: Tensor) -> Tensor:
        return ours.source.weight[tokens] * 4.0 + sinusoid(0, tokens.shape[1], 16).double()

    padding = source == PAD
    causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1], dtype=torch.float64)
    with torch.no_grad():
        expected = theirs(
            embedded(source), embedded(target), tgt_mask=causal,
            src_key_padding_mask=padding, memory_key_padding_mask=padding,
        )  # fmt: skip
        torch.testing.assert_close(ours.hidden(source, target), expected, atol=1e-5, rtol=1e-5)


def as_marian(model: Transformer):
    """Hugging Face's Marian with our weights."""
    transformers = pytest.importorskip("transformers")
    c = model.config
    config = transformers.MarianConfig(
        vocab_size=SYMBOLS, d_model=c.d_model, encoder_layers=c.encoder_layers, decoder_layers=c.decoder_layers,
        encoder_attention_heads=c.heads, decoder_attention_heads=c.heads, encoder_ffn_dim=c.d_ff,
        decoder_ffn_dim=c.d_ff, activation_function="relu", scale_embedding=True, pad_token_id=PAD, eos_token_id=3,
        bos_token_id=2, decoder_start_token_id=2, max_position_embeddings=64, share_encoder_decoder_embeddings=True,
        tie_word_embeddings=True, forced_eos_token_id=None,
    )  # fmt: skip
    theirs = transformers.MarianMTModel(config).double().eval()
    inner = theirs.model
    inner.shared.weight.data.copy_(model.source.weight)
    for side, layers in ((inner.encoder, model.encoder), (inner.decoder, model.decoder)):
        side.embed_positions.weight.data.copy_(sinusoid(0, 64, c.d_model))
        for mine, other in zip(layers, side.layers, strict=True):
            split_attention(other.self_attn, mine.attention.qkv.weight, mine.attention.qkv.bias, mine.attention.output)
            other.self_attn_layer_norm.load_state_dict(mine.attention_path.norm.state_dict())
            if side is inner.decoder:
                weight = torch.cat([mine.cross.query.weight, mine.cross.memory.weight])
                bias = torch.cat([mine.cross.query.bias, mine.cross.memory.bias])
                split_attention(other.encoder_attn, weight, bias, mine.cross.output)
                other.encoder_attn_layer_norm.load_state_dict(mine.cross_path.norm.state_dict())
            copy_linear(other.fc1, mine.feed_forward.inner.weight, mine.feed_forward.inner.bias)
            copy_linear(other.fc2, mine.feed_forward.outer.weight, mine.feed_forward.outer.bias)
            other.final_layer_norm.load_state_dict(mine.feed_forward_path.norm.state_dict())
    return theirs


def split_attention(theirs: nn.Module, weight: Tensor, bias: Tensor, output: nn.Linear) -> None:
    for name, w, b in zip(("q_proj", "k_proj", "v_proj"), weight.chunk(3), bias.chunk(3), strict=True):
        copy_linear(getattr(theirs, name), w, b)
    copy_linear(theirs.out_proj, output.weight, output.bias)


@pytest.mark.filterwarnings("ignore")
def test_the_transformer_equals_a_hugging_face_marian_given_the_same_weights():
    ours = randomize(made())
    theirs = as_marian(ours)
    source, target = two_sentences()
    with torch.no_grad():
        expected = theirs(input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=target).logits
        torch.testing.assert_close(ours.project(ours.hidden(source, target)), expected, atol=1e-5, rtol=1e-5)
