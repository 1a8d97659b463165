// Rules that are being written: what would become of them is asked of the rules service, which writes nothing then.

import { call, Problem, type Applied, type Difference, type Json, type Rule } from "./api.ts";

/** A rule as its fields, or as text. */
export type Draft = Rule | string;

/** How a call sends it. */
export function bodyOf(draft: Draft): { json: Rule } | { yaml: string } {
  return typeof draft === "string" ? { yaml: draft } : { json: draft };
}

/** Says how what is there would change, undefined if it would not, or throws a Problem whose paths are those of the rule. */
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

/** A rules file of one rule: its text is set in, so that a comment or an empty line may stand at its beginning. */
export function asFile(text: string): string {
  return "rules:\n  -\n" + text.replace(/^/gm, "    ");
}

/** The texts of a list as people write them: one a line, or with commas between. */
export function listOf(text: string): string[] {
  return text
    .split(/[\n,]/)
    .map((t) => t.trim())
    .filter((t) => t !== "");
}

/** The fields that say something. */
export function given(fields: { [name: string]: Json }): { [name: string]: Json } {
  const says = (v: Json): boolean => v !== null && v !== "" && v !== false && (typeof v !== "object" || Object.keys(v).length > 0);
  return Object.fromEntries(Object.entries(fields).filter(([, v]) => says(v)));
}
