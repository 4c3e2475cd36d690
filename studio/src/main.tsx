// The studio: mounts the page and asks the server for its models.

import "./style.css";
import { render } from "preact";
import { App } from "./app";
import { begin } from "./classroom";

const MOST_WAIT = 250; // milliseconds for what the page preloads, so that it is drawn once; then it is drawn without

const later = new Promise((resolve) => setTimeout(resolve, MOST_WAIT));
void Promise.race([begin(), later]).then(() => render(<App />, document.getElementById("app")!));
