"""torch.nn.Transformer in a plain loop: tied embeddings, sinusoids, masks for padding and for the future."""

import math

import torch
from torch import Tensor, nn

from bench.peers.loops import train
from bench.peers.recorder import Recorder
from bench.peers.task import PAD, Task


class Plain(nn.Module):
    """The usual first implementation."""

    positions: Tensor

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.embedding = nn.Embedding(task.symbols, task.d_model, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, std=task.d_model**-0.5)
        self.transformer = nn.Transformer(
            task.d_model, task.heads, task.encoder_layers, task.decoder_layers, task.d_ff, task.dropout,
            batch_first=True,
        )  # fmt: skip
        self.dropout = nn.Dropout(task.dropout)
        angles = torch.arange(512)[:, None] / 10_000 ** (torch.arange(0, task.d_model, 2) / task.d_model)
        self.register_buffer("positions", torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1))

    def embed(self, tokens: Tensor) -> Tensor:
        scaled = self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(scaled + self.positions[: tokens.shape[1]])

    def forward(self, source: Tensor, inputs: Tensor) -> Tensor:
        empty, future = source == PAD, torch.ones(inputs.shape[1], inputs.shape[1], dtype=torch.bool).triu(1)
        hidden = self.transformer(
            self.embed(source), self.embed(inputs), tgt_mask=future, src_key_padding_mask=empty,
            tgt_key_padding_mask=inputs == PAD, memory_key_padding_mask=empty,
        )  # fmt: skip
        return hidden @ self.embedding.weight.t()


if __name__ == "__main__":
    torch.manual_seed(1)
    task = Task.from_arguments()
    model = Plain(task)
    train(task, model, model, Recorder(task, "plain", "torch"))
