// The studio: mounts the page and asks the server for its models.

import "./style.css";
import { render } from "preact";
import { App } from "./app";
import { begin } from "./classroom";

render(<App />, document.getElementById("app")!);
void begin();
