import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { type Rule } from "../api.ts";
import { useAttempt } from "../attempt.ts";
import { given, listOf, preview } from "../draft.ts";
import { Attributes, valuesOf, type Attribute } from "../parts/attributes.tsx";
import { Choice, Field, Form, NoteField, wrongAt } from "../parts/form.tsx";
import { go } from "../route.ts";
import { yaml } from "../yaml.ts";
import { Editor, refuseOther, RuleReview, taken } from "./editor.tsx";

const fields = ["id", "description", "when", "key", "limits", "consistency", "on_limit"];

const consistencies: [string, string][] = [
  ["", "as the store has it"],
  ["exact", "exact: the store is asked for every request"],
  ["lease", "lease: units are taken ahead"],
  ["async", "async: nodes tell each other through Redis"],
  ["gossip", "gossip: nodes tell each other directly"],
  ["local", "local: each node by itself"],
];

const answers: [string, string][] = [
  ["", "denied"],
  ["shadow", "let pass, and counted as denied"],
  ["drop", "dropped without an answer"],
];

/** Makes a rule of the fields that most rules have, or goes on as text. */
export function NewRule({ namespace }: { namespace: string }) {
  const [form, setForm] = useState({ id: "", description: "", key: "", limits: "", consistency: "", on_limit: "" });
  const [when, setWhen] = useState<Attribute[]>([]);
  const [note, setNote] = useState("");
  const [text, setText] = useState<string | undefined>();
  const [diff, setDiff] = useState<string | undefined>();
  const attempt = useAttempt();
  const first = useRef<HTMLInputElement>(null);
  const writing = diff === undefined && text === undefined;
  useLayoutEffect(() => {
    if (writing) first.current?.focus();
  }, [writing]);
  const set = (change: Partial<typeof form>): void => setForm({ ...form, ...change });
  const rule = (): Rule => ({
    id: form.id.trim(),
    ...given({ description: form.description, when: valuesOf(when), key: listOf(form.key), limits: listOf(form.limits), consistency: form.consistency, on_limit: form.on_limit }),
  });
  const review = (): void =>
    void attempt.run(async () => {
      const made = await preview(namespace, rule());
      if (!made) throw taken(form.id.trim()); // one that is just the same
      refuseOther(made.id, made.action, undefined);
      setDiff(made.text ?? "");
    });
  const done = (id: string): void => go("/rules/" + encodeURIComponent(id));
  const { error } = attempt;
  return (
    <>
      <p class="crumbs">
        <a href="/rules">Rules</a>
      </p>
      <div class="page-head">
        <h1 tabIndex={-1}>New rule</h1>
        <p class="muted lead">In the namespace {namespace}. It is in force on every node as soon as it is saved.</p>
      </div>
      {text !== undefined && <Editor namespace={namespace} item={undefined} text={text} onDone={done} onCancel={() => setText(undefined)} />}
      {diff !== undefined && (
        <RuleReview namespace={namespace} draft={rule()} note={note} item={undefined} diff={diff} onTake={() => {}} onBack={() => setDiff(undefined)} onDone={done} />
      )}
      {writing && (
        <Form
          attempt={attempt}
          fields={fields}
          onSubmit={review}
          submit="Review"
          onCancel={() => go("/rules")}
          others={
            <button type="button" onClick={() => setText(yaml(rule()))}>
              Go on as text
            </button>
          }
        >
          <div class="fields">
            <Field id="n-id" label="Id" errors={wrongAt(error, "id")}>
              {(props) => <input {...props} ref={first} size={24} autocomplete="off" spellcheck={false} placeholder="search-per-user" value={form.id} onInput={(e) => set({ id: e.currentTarget.value })} />}
            </Field>
            <Field id="n-description" label="What it is for" class="wide" errors={wrongAt(error, "description")}>
              {(props) => <input {...props} value={form.description} onInput={(e) => set({ description: e.currentTarget.value })} />}
            </Field>
          </div>
          <fieldset class="group">
            <legend>Which requests</legend>
            {when.length === 0 && <p class="muted">All of them.</p>}
            <Attributes id="n-when" attributes={when} onChange={setWhen} error={error} path="when" least={0} />
            <p>
              <button type="button" onClick={() => setWhen([...when, { name: when.length === 0 ? "path" : "", value: "" }])}>
                Only those with …
              </button>
            </p>
          </fieldset>
          <div class="fields">
            <Field id="n-limits" label="Limits" class="wide" help="As 10/s, 10/s burst 20 or 1000/h sliding-window; several with commas between." errors={wrongAt(error, "limits")}>
              {(props) => <input {...props} autocomplete="off" spellcheck={false} placeholder="10/s burst 20" value={form.limits} onInput={(e) => set({ limits: e.currentTarget.value })} />}
            </Field>
            <Field id="n-key" label="For each" class="wide" help="As user, or user, path for each pair. Empty: one limit for all together." errors={wrongAt(error, "key")}>
              {(props) => <input {...props} list="names" autocomplete="off" spellcheck={false} placeholder="all together" value={form.key} onInput={(e) => set({ key: e.currentTarget.value })} />}
            </Field>
          </div>
          <div class="fields">
            <Field id="n-on-limit" label="What is over is" errors={wrongAt(error, "on_limit")}>
              {(props) => <Choice props={props} of={answers} value={form.on_limit} onChange={(on_limit) => set({ on_limit })} />}
            </Field>
            <Field id="n-consistency" label="Counted" errors={wrongAt(error, "consistency")}>
              {(props) => <Choice props={props} of={consistencies} value={form.consistency} onChange={(consistency) => set({ consistency })} />}
            </Field>
          </div>
          <div class="fields">
            <NoteField id="n-note" note={note} onChange={setNote} error={error} />
          </div>
        </Form>
      )}
    </>
  );
}
