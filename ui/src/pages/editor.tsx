import { useEffect, useRef, useState } from "preact/hooks";

import { call, Problem, type RuleItem } from "../api.ts";
import { plural } from "../format.ts";
import { Diff } from "../parts/diff.tsx";
import { Notice, Wrong } from "../parts/marks.tsx";
import { yaml } from "../yaml.ts";

/** Changes one rule as text. What somebody else has changed meanwhile is not overwritten: the difference is shown instead. */
export function Editor({ namespace, item, onDone }: { namespace: string; item: RuleItem; onDone: () => void }) {
  const [text, setText] = useState(() => yaml(item.rule));
  const [note, setNote] = useState("");
  const [based, setBased] = useState(item.revision);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error | undefined>();
  const [checked, setChecked] = useState("");
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => area.current?.focus(), []);

  const attempt = async (what: () => Promise<void>): Promise<void> => {
    setBusy(true);
    setError(undefined);
    setChecked("");
    try {
      await what();
    } catch (err) {
      setError(err as Error);
      const line = err instanceof Problem ? err.errors[0]?.line : undefined;
      if (line !== undefined) mark(area.current, line);
    }
    setBusy(false);
  };
  const check = (): Promise<void> =>
    attempt(async () => {
      const valid = await call<{ rules: number }>("/v1/validate", { method: "POST", query: { namespace }, yaml: text, stay: true });
      setChecked(`It is right: ${plural(valid.rules, "rule")}.`);
    });
  const save = (): Promise<void> =>
    attempt(async () => {
      const path = "/v1/rules/" + encodeURIComponent(item.rule.id);
      await call(path, { method: "PUT", query: { namespace, note: note || undefined }, yaml: text, ifMatch: based, stay: true });
      onDone();
    });

  const conflict = error instanceof Problem && error.status === 412 ? error : undefined;
  return (
    <form
      class="form editor"
      onSubmit={(e) => {
        e.preventDefault();
        void save();
      }}
    >
      <label for="rule-text">The rule, as in a rules file</label>
      <textarea id="rule-text" ref={area} class="code" rows={Math.min(24, Math.max(8, text.split("\n").length + 1))} spellcheck={false} value={text} onInput={(e) => setText(e.currentTarget.value)} />
      <label for="rule-note">Why, for the history</label>
      <input id="rule-note" value={note} maxLength={1000} onInput={(e) => setNote(e.currentTarget.value)} />
      {error && !conflict && <Wrong error={error} />}
      {checked !== "" && <Notice tone="good">{checked}</Notice>}
      {conflict && (
        <Notice tone="warn">
          <p>{conflict.message} From what is there to what you wrote it is:</p>
          <Diff text={conflict.diff} />
          {conflict.current && (
            <p class="row">
              <button
                type="button"
                onClick={() => {
                  if (conflict.current) setBased(conflict.current.revision);
                  setError(undefined);
                }}
              >
                Keep what I wrote
              </button>
              <button
                type="button"
                onClick={() => {
                  if (conflict.current) {
                    setText(yaml(conflict.current.rule));
                    setBased(conflict.current.revision);
                  }
                  setError(undefined);
                }}
              >
                Take what is there
              </button>
            </p>
          )}
        </Notice>
      )}
      <p class="row">
        <button type="submit" class="primary" disabled={busy || conflict !== undefined}>
          Save
        </button>
        <button type="button" disabled={busy} onClick={() => void check()}>
          Check
        </button>
        <button type="button" onClick={onDone}>
          Cancel
        </button>
      </p>
    </form>
  );
}

/** Selects a line. */
function mark(area: HTMLTextAreaElement | null, line: number): void {
  if (!area) return;
  const lines = area.value.split("\n");
  const start = lines.slice(0, line - 1).reduce((sum, l) => sum + l.length + 1, 0);
  area.focus();
  area.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
}
