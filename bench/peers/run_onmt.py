"""OpenNMT-py 3.5 through its own trainer, batcher and command; only watched."""

import sys
import tempfile
from pathlib import Path

from bench.peers.recorder import Recorder, hook
from bench.peers.task import SPECIALS, Task

PAD, END = 1, 3  # <unk> <blank> <s> </s> come first


def write_vocabulary(task: Task, path: Path) -> None:
    """Every subword, one per line; the toolkit adds its own specials."""
    symbols = (task.folder / "vocabulary.txt").read_text(encoding="utf-8").split("\n")
    path.write_text("\n".join(symbols[SPECIALS:]) + "\n", encoding="utf-8")


def configuration(task: Task, folder: Path) -> str:
    return f"""
data:
  train: {{path_src: {task.folder}/train.source, path_tgt: {task.folder}/train.target, transforms: []}}
src_vocab: {folder}/vocabulary
tgt_vocab: {folder}/vocabulary
src_vocab_size: {task.symbols}
tgt_vocab_size: {task.symbols}
share_vocab: true
vocab_size_multiple: 1
save_model: {folder}/model
encoder_type: transformer
decoder_type: transformer
position_encoding: true
enc_layers: {task.encoder_layers}
dec_layers: {task.decoder_layers}
hidden_size: {task.d_model}
word_vec_size: {task.d_model}
transformer_ff: {task.d_ff}
heads: {task.heads}
dropout: [{task.dropout}]
attention_dropout: [0.0]
share_embeddings: true
share_decoder_embeddings: true
label_smoothing: {task.label_smoothing}
param_init: 0
param_init_glorot: true
optim: adam
adam_beta1: {task.beta1}
adam_beta2: {task.beta2}
learning_rate: 2
decay_method: noam
warmup_steps: 800
max_grad_norm: 0
batch_type: tokens
batch_size: {task.tokens}
normalization: tokens
accum_count: [1]
bucket_size: 30000
num_workers: 0
world_size: 1
train_steps: 1000000
valid_steps: 1000000
save_checkpoint_steps: 1000000
report_every: 20
seed: 1
"""


if __name__ == "__main__":
    task = Task.from_arguments()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_vocabulary(task, folder / "vocabulary")
        (folder / "train.yaml").write_text(configuration(task, folder))
        hook(Recorder(task, "onmt", "OpenNMT-py"), pad=PAD, end=END)
        sys.argv = ["onmt_train", "-config", str(folder / "train.yaml")]
        from onmt.bin.train import main

        main()
