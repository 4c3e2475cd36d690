"""The head of a finished model that aligns words: the one whose attention agrees best with the lexicon.

No gold alignments are needed.  The lexicon, learned from the training text for the shortlist, says which subwords
translate each other; of some training pairs, every head of cross-attention is scored by the attention that it pays to
these (`evaluation.linking.score_heads`).
"""

import numpy as np

from jumok.data.lexicon import Lexicon
from jumok.data.store import Store
from jumok.engines.torch_engine import TorchEngine
from jumok.evaluation.linking import find_evidence, score_heads

PAIRS = 48  # training pairs that heads are compared on
LONGEST = 60  # most subwords per side of such a pair


def choose_head(engine: TorchEngine, store: Store, lexicon: Lexicon) -> dict[str, int] | None:
    """Return the entry `aligning` of a card; None if the model has no cross-attention or the lexicon no probabilities.

    Layer and head are counted from 0.
    """
    total = np.zeros(())
    for row in np.linspace(0, len(store) - 1, min(PAIRS, len(store))).astype(int).tolist():
        source, target = (side[row].tolist()[:LONGEST] for side in (store.source, store.target))
        evidence = find_evidence(lexicon, source, target)
        if evidence is None or not source or not target:
            continue
        cross = engine.attention(source, target).cross[:, :, : len(target), : len(source)]  # (L, H, T, S)
        if not cross.shape[0]:
            return None
        total = total + score_heads(cross.float().cpu().numpy(), evidence)
    if not total.shape:
        return None
    layer, head = np.unravel_index(int(total.argmax()), total.shape)
    return {"layer": int(layer), "head": int(head)}
