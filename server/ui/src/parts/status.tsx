// The first thing on the Overview: whether anything is wrong.

import type { ComponentChildren } from "preact";

import { factsOf } from "../facts.ts";
import { plural } from "../format.ts";
import type { State } from "../health.ts";

/** One sentence, and what it is based on. */
export function StatusCard({ state, children }: { state: State | undefined; children?: ComponentChildren }) {
  if (!state) return null;
  const facts = factsOf(state);
  const problems = facts.filter((f) => f.tone !== "good");
  const only = problems.length === 1 ? problems[0] : undefined;
  const tone = problems.some((f) => f.tone === "bad") ? "bad" : problems.length > 0 ? "warn" : "good";
  return (
    <section class={`card status ${tone}`} aria-label="State of the fleet" data-status={tone}>
      <p class="status-line">
        <StatusMark good={tone === "good"} />
        {only ? <a href={only.href}>{only.text}</a> : problems.length === 0 ? "No problems" : plural(problems.length, "problem")}
      </p>
      <ul class="facts">
        {[...(only ? [] : problems), ...facts.filter((f) => f.tone === "good")].map((f) => (
          <li key={f.text} class={f.tone}>
            <a href={f.href}>{f.text}</a>
          </li>
        ))}
      </ul>
      {children}
    </section>
  );
}

function StatusMark({ good }: { good: boolean }) {
  return (
    <svg class="status-mark" viewBox="0 0 20 20" width="22" height="22" aria-hidden="true">
      <circle cx="10" cy="10" r="10" />
      <path d={good ? "M5.5 10.4l3 3 6-6.6" : "M10 5v6.2M10 14.2v.6"} />
    </svg>
  );
}
