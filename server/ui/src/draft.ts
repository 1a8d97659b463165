// Previews changes of rules with the rules service.

import { call, Problem, type Applied, type Difference, type Json, type Rule } from "./api.ts";

/** A rule as fields or as text. */
export type Draft = Rule | string;

/** The body of a call with a draft. */
export function bodyOf(draft: Draft): { json: Rule } | { yaml: string } {
  return typeof draft === "string" ? { yaml: draft } : { json: draft };
}

/** Returns how the rule would change, or undefined. Throws a Problem whose paths are relative to the rule. */
export async function preview(namespace: string, draft: Draft): Promise<Difference | undefined> {
  const query = { namespace };
  await call("/v1/validate", { method: "POST", query, ...bodyOf(draft), stay: true }); // it knows lines
  const file = typeof draft === "string" ? { yaml: asFile(draft) } : { json: { rules: [draft] } };
  try {
    const applied = await call<Applied>("/v1/rules:apply", { method: "POST", query: { ...query, dry_run: "" }, ...file, stay: true });
    return applied.diff[0];
  } catch (err) {
    if (!(err instanceof Problem)) throw err;
    const errors = err.errors.map(({ path, value, want }) => ({ path: path.replace(/^rules\[0\]\.?/, ""), want, ...(value === undefined ? {} : { value }) }));
    throw new Problem(err.status, err.message.replace("rules[0].", ""), errors);
  }
}

/** A rules file with one rule. The text is indented, so that it may begin with a comment or an empty line. */
export function asFile(text: string): string {
  return "rules:\n  -\n" + text.replace(/^/gm, "    ");
}

/** Splits a list at commas and line ends. */
export function splitList(text: string): string[] {
  return text
    .split(/[\n,]/)
    .map((t) => t.trim())
    .filter((t) => t !== "");
}

/** The fields that are not empty. */
export function given(fields: { [name: string]: Json }): { [name: string]: Json } {
  const says = (v: Json): boolean => v !== null && v !== "" && v !== false && (typeof v !== "object" || Object.keys(v).length > 0);
  return Object.fromEntries(Object.entries(fields).filter(([, v]) => says(v)));
}
