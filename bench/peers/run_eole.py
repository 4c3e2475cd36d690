"""eole 0.6 through its own trainer, batcher and command; only watched."""

import sys
import tempfile
from pathlib import Path

from bench.peers.recorder import Recorder, hook
from bench.peers.run_onmt import END, PAD, write_vocabulary
from bench.peers.task import Task


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
seed: 1
report_every: 20
model:
  architecture: transformer
  hidden_size: {task.d_model}
  transformer_ff: {task.d_ff}
  heads: {task.heads}
  encoder: {{layers: {task.encoder_layers}}}
  decoder: {{layers: {task.decoder_layers}}}
  share_embeddings: true
  share_decoder_embeddings: true
  add_qkvbias: true
  add_ffnbias: true
  add_final_linear_bias: true
  embeddings: {{word_vec_size: {task.d_model}, position_encoding_type: SinusoidalInterleaved}}
training:
  model_path: {folder}/model
  compute_dtype: fp32
  use_amp: false
  self_attn_backend: flash
  param_init_method: xavier_uniform
  dropout: [{task.dropout}]
  attention_dropout: [0.0]
  label_smoothing: {task.label_smoothing}
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
"""


if __name__ == "__main__":
    task = Task.from_arguments()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_vocabulary(task, folder / "vocabulary")
        (folder / "train.yaml").write_text(configuration(task, folder))
        hook(Recorder(task, "eole", "eole"), pad=PAD, end=END)
        sys.argv = ["eole", "train", "-config", str(folder / "train.yaml")]
        from eole.bin.main import main

        main()
