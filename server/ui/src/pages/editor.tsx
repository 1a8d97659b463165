import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { call, Problem, type RuleItem } from "../api.ts";
import { useAttempt } from "../attempt.ts";
import { lineDiff } from "../linediff.ts";
import { bodyOf, preview, type Draft } from "../draft.ts";
import { Diff } from "../parts/diff.tsx";
import { Field, Form, NoteField } from "../parts/form.tsx";
import { Notice } from "../parts/notices.tsx";
import { Review } from "../parts/review.tsx";
import { yaml } from "../yaml.ts";

interface RuleWriting {
  namespace: string;
  draft: Draft;
  note: string;
  /** The rule to change; undefined for a new one. */
  item: RuleItem | undefined;
  /** Continues with the version that somebody else has saved meanwhile. */
  onTake: (item: RuleItem) => void;
  onBack: () => void;
  onDone: (id: string) => void;
  diff: string;
}

/** Shows the change and saves it, unless somebody else has changed the rule meanwhile. */
export function RuleReview({ namespace, draft, note, item, onTake, onBack, onDone, diff: first }: RuleWriting) {
  const [based, setBased] = useState(item?.revision);
  const [diff, setDiff] = useState(first);
  const attempt = useAttempt();
  const save = (): void =>
    void attempt.run(async () => {
      const query = { namespace, note: note || undefined };
      const options = { query, ...bodyOf(draft), stay: true };
      const saved =
        based === undefined
          ? await call<RuleItem>("/v1/rules", { method: "POST", ...options })
          : await call<RuleItem>("/v1/rules/" + encodeURIComponent(item?.rule.id ?? ""), { method: "PUT", ifMatch: based, ...options });
      onDone(saved.rule.id);
    });
  const { error } = attempt;
  const conflict = error instanceof Problem && (error.status === 412 || error.status === 409) ? error : undefined;
  const there = conflict?.current;
  const keep = (): void => {
    if (conflict) setDiff(there ? conflict.diff : lineDiff("", typeof draft === "string" ? draft : yaml(draft)));
    setBased(there?.revision);
    attempt.clear();
  };
  return (
    <Review diff={diff} attempt={attempt} onSave={save} onBack={onBack}>
      {conflict && (
        <Notice tone="warn">
          <p>
            {conflict.message} {there && "The difference from the saved version to yours:"}
          </p>
          {there && <Diff text={conflict.diff} />}
          {item && (
            <p class="row">
              <button type="button" onClick={keep}>
                {there ? "Keep my version" : "Create it again"}
              </button>
              {there?.rule && (
                <button type="button" onClick={() => there.rule && onTake({ ...there, rule: there.rule })}>
                  Use the saved version
                </button>
              )}
            </p>
          )}
        </Notice>
      )}
    </Review>
  );
}

interface Props {
  namespace: string;
  /** The rule to change; undefined for a new one. */
  item: RuleItem | undefined;
  text?: string;
  onDone: (id: string) => void;
  onCancel: () => void;
}

/** Edits a rule as text. */
export function Editor({ namespace, item, text: given, onDone, onCancel }: Props) {
  const [base, setBase] = useState(item);
  const [text, setText] = useState(given ?? (item ? yaml(item.rule) : ""));
  const [note, setNote] = useState("");
  const [diff, setDiff] = useState<string | undefined>();
  const attempt = useAttempt();
  const area = useRef<HTMLTextAreaElement>(null);
  const writing = diff === undefined;
  useLayoutEffect(() => {
    if (writing) area.current?.focus();
  }, [writing]);

  const { error } = attempt;
  useLayoutEffect(() => {
    const line = error instanceof Problem ? error.errors.find((e) => e.line !== undefined)?.line : undefined;
    if (line !== undefined) mark(area.current, line);
  }, [error]);
  const review = (): void =>
    void attempt.run(async () => {
      const made = await preview(namespace, text);
      if (made) refuseOther(made.id, made.action, item);
      setDiff(made?.text ?? "");
    });
  if (!writing) {
    return (
      <RuleReview
        namespace={namespace}
        draft={text}
        note={note}
        item={base}
        diff={diff}
        onTake={(taken) => {
          setBase(taken);
          setText(yaml(taken.rule));
          setDiff(undefined);
        }}
        onBack={() => setDiff(undefined)}
        onDone={onDone}
      />
    );
  }
  return (
    <Form
      attempt={attempt}
      class="form editor"
      fields={[]}
      onSubmit={review}
      submit="Review"
      onCancel={onCancel}
    >
      <Field id="rule-text" label="The rule, as in a rules file" errors={[]}>
        {(props) => (
          <textarea
            {...props}
            aria-invalid={error !== undefined}
            ref={area}
            class="code"
            rows={Math.min(24, Math.max(8, text.split("\n").length + 1))}
            spellcheck={false}
            value={text}
            onInput={(e) => setText(e.currentTarget.value)}
          />
        )}
      </Field>
      <NoteField id="rule-note" note={note} onChange={setNote} />
    </Form>
  );
}

/** Throws if a draft has the id of another rule. */
export function refuseOther(id: string, action: string, item: RuleItem | undefined): void {
  if (item && id !== item.rule.id) {
    throw new Problem(422, "A rule cannot be renamed: create another, and delete this one.", [{ path: "id", value: id, want: item.rule.id }]);
  }
  if (!item && action !== "create") throw taken(id);
}

export function taken(id: string): Problem {
  return new Problem(409, `There is a rule ${id} already.`, [{ path: "id", value: id, want: "an id that no other rule has" }]);
}

/** Selects a line. */
function mark(area: HTMLTextAreaElement | null, line: number): void {
  if (!area) return;
  const lines = area.value.split("\n");
  const start = lines.slice(0, line - 1).reduce((sum, l) => sum + l.length + 1, 0);
  area.focus();
  area.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
}
