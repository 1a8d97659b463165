import { render } from "preact";

import { App } from "./app.tsx";
import { showTheme, theme } from "./theme.ts";

showTheme(theme());
const root = document.getElementById("console");
if (root) render(<App />, root);
