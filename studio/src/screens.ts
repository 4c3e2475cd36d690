// The screens, in the order of the bar.  A new one is a file in screens/, its words in strings/en and strings/ko, and a
// line here.

import type { ComponentType } from "preact";
import { breakIt } from "./screens/break";
import { errors } from "./screens/errors";
import { inside } from "./screens/inside";
import { lab } from "./screens/lab";
import { search } from "./screens/search";
import { training } from "./screens/training";
import { translate } from "./screens/translate";

export interface Screen {
  readonly name: string; // behind # in the address
  readonly title: { readonly value: string }; // in the bar, in the language of the reader
  readonly view: ComponentType;
}

export const screens: readonly Screen[] = [translate, inside, breakIt, search, training, lab, errors];
