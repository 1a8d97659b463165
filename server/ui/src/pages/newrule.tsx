import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { type Rule } from "../api.ts";
import { useAttempt } from "../attempt.ts";
import { given, splitList, preview } from "../draft.ts";
import { Attributes, valuesOf, type Attribute } from "../parts/attributes.tsx";
import { Choice, Field, Form, NoteField, errorsAt } from "../parts/form.tsx";
import { go } from "../route.ts";
import { yaml } from "../yaml.ts";
import { Editor, refuseOther, RuleReview, taken } from "./editor.tsx";

const fields = ["id", "description", "when", "key", "limits", "consistency", "on_limit"];

const consistencies: [string, string][] = [
  ["", "default of the store"],
  ["exact", "exact: one store call per request"],
  ["lease", "lease: nodes take units in advance"],
  ["async", "async: nodes exchange updates through Redis"],
  ["gossip", "gossip: nodes exchange updates directly"],
  ["local", "local: each node counts alone"],
];

const answers: [string, string][] = [
  ["", "denied"],
  ["shadow", "admitted, and counted as denied (shadow)"],
  ["drop", "dropped without a response"],
];

/** Creates a rule from the most used fields, or as text. */
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
    ...given({ description: form.description, when: valuesOf(when), key: splitList(form.key), limits: splitList(form.limits), consistency: form.consistency, on_limit: form.on_limit }),
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
        <p class="muted lead">In the namespace {namespace}. Every node applies it within a second.</p>
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
              Edit as text
            </button>
          }
        >
          <div class="fields">
            <Field id="n-id" label="Id" errors={errorsAt(error, "id")}>
              {(props) => <input {...props} ref={first} size={24} autocomplete="off" spellcheck={false} placeholder="search-per-user" value={form.id} onInput={(e) => set({ id: e.currentTarget.value })} />}
            </Field>
            <Field id="n-description" label="Description" class="wide" errors={errorsAt(error, "description")}>
              {(props) => <input {...props} value={form.description} onInput={(e) => set({ description: e.currentTarget.value })} />}
            </Field>
          </div>
          <fieldset class="group">
            <legend>Requests</legend>
            {when.length === 0 && <p class="muted">The rule limits all requests.</p>}
            <Attributes id="n-when" attributes={when} onChange={setWhen} error={error} path="when" least={0} />
            <p>
              <button type="button" onClick={() => setWhen([...when, { name: when.length === 0 ? "path" : "", value: "" }])}>
                Add a condition
              </button>
            </p>
          </fieldset>
          <div class="fields">
            <Field id="n-limits" label="Limits" class="wide" help="Such as 10/s, 10/s burst 20 or 1000/h sliding-window. Separate several with commas." errors={errorsAt(error, "limits")}>
              {(props) => <input {...props} autocomplete="off" spellcheck={false} placeholder="10/s burst 20" value={form.limits} onInput={(e) => set({ limits: e.currentTarget.value })} />}
            </Field>
            <Field id="n-key" label="Key" class="wide" help="Attributes that name the client, such as user, or user, path for each pair. Empty: one limit for all clients together." errors={errorsAt(error, "key")}>
              {(props) => <input {...props} list="names" autocomplete="off" spellcheck={false} placeholder="all clients together" value={form.key} onInput={(e) => set({ key: e.currentTarget.value })} />}
            </Field>
          </div>
          <div class="fields">
            <Field id="n-on-limit" label="Requests over the limit are" errors={errorsAt(error, "on_limit")}>
              {(props) => <Choice props={props} of={answers} value={form.on_limit} onChange={(on_limit) => set({ on_limit })} />}
            </Field>
            <Field id="n-consistency" label="Consistency" errors={errorsAt(error, "consistency")}>
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
