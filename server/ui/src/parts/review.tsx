// Shows a change before it is saved.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

import type { Attempt } from "../attempt.ts";
import { Diff } from "./diff.tsx";
import { Notice, ErrorNotice } from "./notices.tsx";

interface Props {
  /** The difference between the current and the new version. */
  diff: string;
  attempt: Attempt;
  onSave: () => void;
  onBack: () => void;
  /** Shown instead of the error. */
  children?: ComponentChildren;
}

export function Review({ diff, attempt, onSave, onBack, children }: Props) {
  const save = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => save.current?.focus(), []);
  return (
    <section class="review" aria-labelledby="review-title">
      <h2 id="review-title">What will change</h2>
      {diff === "" ? <Notice tone="plain">Nothing would change.</Notice> : <Diff text={diff} />}
      {children || (attempt.error && <ErrorNotice error={attempt.error} />)}
      <div class="row">
        <button ref={save} type="button" class="primary" aria-disabled={attempt.busy} disabled={diff === "" || !!children} onClick={onSave}>
          Save
        </button>
        <button type="button" aria-disabled={attempt.busy} onClick={onBack}>
          Back
        </button>
      </div>
    </section>
  );
}
