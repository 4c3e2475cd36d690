"""Hugging Face transformers: a MarianMTModel in a plain loop; drops out where the paper does."""

import torch
from torch import Tensor
from transformers import MarianConfig, MarianMTModel

from bench.peers.loops import train
from bench.peers.recorder import Recorder
from bench.peers.task import END, PAD, START, Task


def marian(task: Task) -> MarianMTModel:
    config = MarianConfig(
        vocab_size=task.symbols, d_model=task.d_model, max_position_embeddings=256,
        encoder_layers=task.encoder_layers, encoder_ffn_dim=task.d_ff, encoder_attention_heads=task.heads,
        decoder_layers=task.decoder_layers, decoder_ffn_dim=task.d_ff, decoder_attention_heads=task.heads,
        dropout=task.dropout, attention_dropout=0.0, activation_dropout=0.0, activation_function="relu",
        scale_embedding=True, pad_token_id=PAD, bos_token_id=START, eos_token_id=END, decoder_start_token_id=START,
        forced_eos_token_id=None,
    )  # fmt: skip
    return MarianMTModel(config)


if __name__ == "__main__":
    torch.manual_seed(1)
    task = Task.from_arguments()
    model = marian(task)

    def logits(source: Tensor, inputs: Tensor) -> Tensor:
        mask = (source != PAD).long()
        return model(input_ids=source, attention_mask=mask, decoder_input_ids=inputs, use_cache=False).logits

    train(task, model, logits, Recorder(task, "hf", "transformers"))
