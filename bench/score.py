"""BLEU of translations, two ways, as JSON: python -m bench.score LANGUAGE REFERENCE HYPOTHESIS …

`bleu` is sacreBLEU (13a) on the cased text as it is; `bleu_moses` is on lower-cased, punctuation-normalised,
Moses-tokenised text, the way scores on Multi30k are published.  One line for each file of translations.  Runs in the
peers' base environment.
"""

import json
import sys

import sacrebleu
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from bench.subwords import lines


class Moses:
    """Lower-case, normalise, tokenise."""

    def __init__(self, language: str) -> None:
        self.normalizer, self.tokenizer = MosesPunctNormalizer(lang=language), MosesTokenizer(lang=language)

    def __call__(self, text: str) -> str:
        return str(self.tokenizer.tokenize(self.normalizer.normalize(text.lower()), return_str=True, escape=False))


def scores(language: str, hypotheses: list[str], references: list[str]) -> dict[str, float]:
    if len(hypotheses) != len(references):
        raise SystemExit(f"{len(hypotheses)} translations of {len(references)} sentences")
    moses = Moses(language)
    tokenised = [moses(text) for text in hypotheses], [[moses(text) for text in references]]
    return {
        "bleu": sacrebleu.corpus_bleu(hypotheses, [references]).score,
        "bleu_moses": sacrebleu.corpus_bleu(*tokenised, tokenize="none", force=True).score,
        "chrf": sacrebleu.corpus_chrf(hypotheses, [references]).score,
    }


if __name__ == "__main__":
    wanted = list(lines(sys.argv[2]))
    for path in sys.argv[3:]:
        print(json.dumps(scores(sys.argv[1], list(lines(path)), wanted)), flush=True)
