// The studio: mounts the page and asks the server for its models.

import "./style.css";
import { render } from "preact";
import { App } from "./app";
import { load } from "./session";

render(<App />, document.getElementById("app")!);
void load();
