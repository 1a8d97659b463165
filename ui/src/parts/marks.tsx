// Small things that say how something is. A colour never says it alone: there are words with it.

import type { ComponentChildren } from "preact";

import { Problem } from "../api.ts";

export type Tone = "good" | "warn" | "bad" | "plain";

export function Badge({ tone, title, children }: { tone: Tone; title?: string; children: ComponentChildren }) {
  return (
    <span class={`badge ${tone}`} title={title}>
      {children}
    </span>
  );
}

export function Notice({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return (
    <div class={`notice ${tone}`} role={tone === "bad" ? "alert" : "status"}>
      {children}
    </div>
  );
}

/** What is wrong, with each field that is. */
export function Wrong({ error }: { error: Error }) {
  const fields = error instanceof Problem ? error.errors : [];
  return (
    <Notice tone="bad">
      <p>{error.message}</p>
      {fields.length > 0 && (
        <ul>
          {fields.map((f) => (
            <li key={`${f.path} ${f.line} ${f.column}`}>
              {f.line ? `Line ${f.line}, ` : ""}
              <code>{f.path}</code>
              {f.value ? `: ${f.value}` : ""}; want {f.want}
            </li>
          ))}
        </ul>
      )}
    </Notice>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p>
        <strong>{title}</strong>
      </p>
      {children}
    </div>
  );
}

export function Waiting({ what }: { what: string }) {
  return (
    <p class="waiting" role="status">
      Asking for {what} …
    </p>
  );
}
