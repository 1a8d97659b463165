// Badges, notices and empty states. Each has words besides its colour.

import type { ComponentChildren } from "preact";

import { Problem, type Difference, type FieldError } from "../api.ts";

export type Tone = "good" | "warn" | "bad" | "plain";

export function Badge({ tone, title, children }: { tone: Tone; title?: string; children: ComponentChildren }) {
  return (
    <span class={`badge ${tone}`} title={title}>
      {children}
    </span>
  );
}

const done = { create: ["good", "created"], update: ["plain", "changed"], delete: ["bad", "deleted"] } as const;

/** Whether an object was created, changed or deleted. */
export function ActionBadge({ action }: { action: Difference["action"] }) {
  const [tone, word] = done[action];
  return <Badge tone={tone}>{word}</Badge>;
}

export function Notice({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return (
    <div class={`notice ${tone}`} role={tone === "bad" ? "alert" : "status"}>
      {children}
    </div>
  );
}

/** An error with its invalid fields, except those that are shown elsewhere. */
export function ErrorNotice({ error, but }: { error: Error; but?: (field: FieldError) => boolean }) {
  const fields = (error instanceof Problem ? error.errors : []).filter((f) => !but?.(f));
  return (
    <Notice tone="bad">
      <p>{error.message}</p>
      {fields.length > 0 && (
        <ul>
          {fields.map((f) => (
            <li key={`${f.path} ${f.line} ${f.column}`}>
              {f.line ? `Line ${f.line}${f.path === "" ? "" : ", "}` : ""}
              {f.path !== "" && <code>{f.path}</code>}
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

export function Loading({ what }: { what: string }) {
  return (
    <p class="waiting" role="status">
      Loading {what} …
    </p>
  );
}
