"""The closed table of the models that a recipe may name.

A model is one file, which also has its section of a recipe, and one line here: the class of the model, and the class of
its section.  Both are named without importing them: reading the recipe of a Transformer does not load torch.
"""

KINDS = {  # kind: model, section
    "transformer": ("jumok.models.transformer.Transformer", "jumok.config.sections.TransformerConfig"),
    "rnn": ("jumok.models.rnn.RNN", "jumok.models.rnn.RNNConfig"),
    "convs2s": ("jumok.models.convs2s.ConvS2S", "jumok.models.convs2s.ConvS2SConfig"),
    "bytenet": ("jumok.models.bytenet.ByteNet", "jumok.models.bytenet.ByteNetConfig"),
    "memory": ("jumok.models.memory.MemoryNetwork", "jumok.models.memory.MemoryConfig"),
    "gpt": ("jumok.models.gpt.GPT", "jumok.models.gpt.GPTConfig"),
    "bert": ("jumok.models.bert.BERT", "jumok.models.bert.BERTConfig"),
    "electra": ("jumok.models.electra.ELECTRA", "jumok.models.electra.ELECTRAConfig"),
    "classifier": ("jumok.models.labels.Classifier", "jumok.models.labels.LabelsConfig"),
    "tagger": ("jumok.models.labels.Tagger", "jumok.models.labels.TaggerConfig"),
}
