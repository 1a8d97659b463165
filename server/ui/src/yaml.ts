// Writes a rule as in a rules file. Ambiguous texts are written as JSON, which YAML includes.

import type { Json } from "./api.ts";

/** Texts that need no quotes in YAML, also in lists and maps. */
const plain = /^[A-Za-z/][\w./*+-]*( [\w./*+-]+)*$|^\d+\/\d*[a-z]+( [\w.-]+)*$/;
const other = /^(true|false|yes|no|on|off|null|y|n)$/i;

export function yaml(value: { [name: string]: Json }): string {
  return Object.entries(value)
    .map(([name, of]) => `${text(name)}:${block(of)}\n`)
    .join("");
}

/** Lists of maps, such as overrides, have a line per item. */
function block(value: Json): string {
  if (Array.isArray(value) && value.some((v) => v !== null && typeof v === "object")) {
    return value.map((v) => "\n  - " + flow(v)).join("");
  }
  return " " + flow(value);
}

function flow(value: Json): string {
  if (typeof value === "string") return text(value);
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (Array.isArray(value)) return "[" + value.map(flow).join(", ") + "]";
  const fields = Object.entries(value).map(([name, of]) => `${text(name)}: ${flow(of)}`);
  return "{" + fields.join(", ") + "}";
}

function text(value: string): string {
  return plain.test(value) && !other.test(value) ? value : JSON.stringify(value);
}
