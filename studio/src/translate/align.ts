// Which words of the text belong to which words of the translation, and where they are in the text.

import type { Sentence } from "../engine/engine";

export interface Place {
  readonly start: number;
  readonly stop: number;
  readonly sentence: number; // -1 where the word belongs to no sentence
  readonly word: number;
}

/** The words of a text with the sentence and the number that the engine knows them by. */
export function locate(text: string, sentences: readonly Sentence[]): Place[] {
  const wanted = sentences.flatMap((one, sentence) =>
    one.source.split(/\s+/).filter(Boolean).map((word, number) => ({ word, sentence, number })));
  let next = 0;
  return [...text.matchAll(/\S+/g)].map((match) => {
    const start = match.index, stop = start + match[0].length, at = wanted[next];
    if (at && (at.word === match[0] || at.word.normalize("NFC") === match[0].normalize("NFC"))) {
      next += 1;
      return { start, stop, sentence: at.sentence, word: at.number };
    }
    return { start, stop, sentence: -1, word: -1 };
  });
}

/** The source words of a word of the translation, or the other way round. */
export function partners(sentence: Sentence, side: "source" | "target", word: number): Set<number> {
  const [from, to] = side === "source" ? [0, 1] : [1, 0];
  return new Set((sentence.alignment ?? []).filter((pair) => pair[from] === word).map((pair) => pair[to]!));
}

/** For each word of one side, whether it is not in the longest common subsequence of both. */
export function differences(one: readonly string[], other: readonly string[]): boolean[] {
  const table = Array.from({ length: one.length + 1 }, () => new Uint16Array(other.length + 1));
  for (let i = one.length - 1; i >= 0; i--) {
    for (let j = other.length - 1; j >= 0; j--) {
      table[i]![j] = one[i] === other[j] ? table[i + 1]![j + 1]! + 1 : Math.max(table[i + 1]![j]!, table[i]![j + 1]!);
    }
  }
  const changed = new Array<boolean>(one.length).fill(true);
  for (let i = 0, j = 0; i < one.length && j < other.length;) {
    if (one[i] === other[j]) changed[i++] = (j++, false);
    else if (table[i + 1]![j]! >= table[i]![j + 1]!) i++;
    else j++;
  }
  return changed;
}
