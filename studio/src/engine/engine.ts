// What stands behind the page: a server (remote.ts) or, later, a model inside the browser.
//
// Screens know this interface only.  Probabilities are between 0 and 1, scores are natural logarithms, positions count
// from 0.

export interface Model {
  readonly id: string;
  readonly source: string | null; // BCP 47
  readonly target: string | null;
  readonly names: readonly (string | null)[];
  readonly kind: string;
  readonly generates: boolean;
  readonly digest: string;
  readonly engine: string;
  readonly ready: boolean;
}

/** What a model says about itself; null is what it does not say. */
export interface Card {
  readonly names: Readonly<Record<"en" | "ko", readonly (string | null)[]>>;
  readonly texts: readonly string[];
  readonly search: { readonly beam: number; readonly length_penalty: number };
  readonly examples: readonly string[] | null;
  readonly scores: Readonly<Partial<Record<"bleu" | "accuracy" | "perplexity" | "doubt", number | null>>>;
  readonly minutes: number | null;
  readonly pairs: number | null;
  readonly valid_pairs: number | null;
  readonly made: string | null;
}

export interface Search {
  readonly beam?: number;
  readonly length_penalty?: number;
  readonly n_best?: number;
}

export interface Rules {
  readonly require?: readonly string[];
  readonly forbid?: readonly string[];
  readonly glossary?: Readonly<Record<string, string>>;
}

export interface Ask extends Search, Rules {
  readonly model: string;
  readonly text: string;
  readonly sentence?: boolean; // the text is one sentence, which is not split
  readonly prefix?: string;
}

export interface Word {
  readonly text: string;
  readonly probability: number;
}

export interface Sentence {
  readonly source: string;
  readonly text: string;
  readonly score?: number;
  readonly log_probability?: number;
  readonly words?: readonly Word[];
  readonly tokens?: readonly string[];
  readonly token_scores?: readonly number[];
  readonly alignment?: readonly (readonly [number, number])[];
  readonly flags?: readonly string[];
  readonly alternatives?: readonly Sentence[];
}

export interface Segments {
  readonly sentences: readonly string[];
  readonly between: readonly string[]; // before, between and after the sentences
}

/** One continuation that the beam considered. */
export interface Node {
  readonly parent: number; // index in the list, -1 for the first token
  readonly step: number;
  readonly token: number;
  readonly piece: string;
  readonly text: string; // of all tokens so far
  readonly gain: number; // log-probability of the token
  readonly log_probability: number;
  readonly fate: "living" | "ended" | "pruned";
  readonly rank: number; // among the candidates of its step, from 1
  readonly margin: number | null; // log-probability above that of the last candidate that was continued
  readonly score: number | null; // of a hypothesis that ended
  readonly reason: string | null; // why it died
}

export interface Graph {
  readonly nodes: readonly Node[];
}

export interface Engine {
  models(): Promise<readonly Model[]>;
  card(model: string): Promise<Card>;
  /** Translate; `grow` gets sentences, the last of them unfinished, as they are made. */
  translate(ask: Ask, grow?: (sentences: readonly Sentence[]) => void, signal?: AbortSignal): Promise<readonly Sentence[]>;
  /** Translate many sentences, each of which stays whole. */
  translateAll(model: string, texts: readonly string[], rules: Rules, signal?: AbortSignal): Promise<readonly Sentence[]>;
  /** The likeliest words at every word of a translation, best first; "" is the end of the sentence. */
  choices(model: string, sentence: Sentence, count: number, signal?: AbortSignal): Promise<readonly (readonly Word[])[]>;
  /** Where words are that the training text did not have, as [start, end] in the text; null if the model cannot say. */
  unknown(model: string, text: string, signal?: AbortSignal): Promise<readonly (readonly [number, number])[] | null>;
  segments(model: string, text: string, signal?: AbortSignal): Promise<Segments>;
  graph(ask: { model: string; text: string; tokens?: readonly string[] } & Search, signal?: AbortSignal): Promise<Graph>;
}
