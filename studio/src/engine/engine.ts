// What stands behind the page: a server (remote.ts) or, later, a model inside the browser.
//
// Screens know this interface only.  All lists are by word or by token as the model's answer says; probabilities are
// between 0 and 1, scores are natural logarithms.

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

export interface Search {
  readonly beam?: number;
  readonly length_penalty?: number;
  readonly n_best?: number;
}

export interface Ask extends Search {
  readonly model: string;
  readonly text: string;
  readonly sentence?: boolean; // the text is one sentence, which is not split
  readonly prefix?: string;
  readonly require?: readonly string[];
  readonly forbid?: readonly string[];
  readonly glossary?: Readonly<Record<string, string>>;
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

export interface Engine {
  models(): Promise<readonly Model[]>;
  /** Translate; `grow` gets sentences, the last of them unfinished, as they are made. */
  translate(ask: Ask, grow?: (sentences: readonly Sentence[]) => void, signal?: AbortSignal): Promise<readonly Sentence[]>;
}
