// The entry of the one-file page; jumok.reports.attention writes the file around it.

import "../style.css";
import "../screens/inside.css";
import "./attention.css";
import { render } from "preact";
import { App } from "./app";

render(<App />, document.getElementById("app")!);
