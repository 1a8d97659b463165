import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { call, type ClientItem, type Json, type RegisteredClient } from "../api.ts";
import { useAttempt } from "../attempt.ts";
import { lineDiff } from "../linediff.ts";
import { given, splitList } from "../draft.ts";
import { Attributes, type Attribute } from "../parts/attributes.tsx";
import { Choice, Field, Form, NoteField, errorsAt } from "../parts/form.tsx";
import { Notice } from "../parts/notices.tsx";
import { Review } from "../parts/review.tsx";
import { yaml } from "../yaml.ts";

const fields = ["id", "attributes", "limits", "unlimited", "block"];

type Grant = "rules" | "limits" | "unlimited" | "block";

const grants: [Grant, string][] = [
  ["rules", "the limits of the rules"],
  ["limits", "limits of its own"],
  ["unlimited", "no limit"],
  ["block", "a block: every request is denied"],
];

interface Props {
  namespace: string;
  /** The client to change; undefined for a new one. */
  item: ClientItem | undefined;
  onDone: (id: string) => void;
  onCancel: () => void;
}

/** Registers a client, or changes one. Fields that the form does not show, such as limits by rule, stay as they are. */
export function ClientForm({ namespace, item, onDone, onCancel }: Props) {
  const was = item?.client;
  const simple = (was?.limits ?? []).every((limit) => typeof limit === "string");
  const [form, setForm] = useState({
    id: was?.id ?? "",
    grant: (was?.block ? "block" : was?.unlimited ? "unlimited" : was?.limits?.length ? "limits" : "rules") as Grant,
    limits: simple ? (was?.limits ?? []).join(", ") : "",
  });
  const [attributes, setAttributes] = useState<Attribute[]>(() => rows(was));
  const [note, setNote] = useState("");
  const [diff, setDiff] = useState<string | undefined>();
  const attempt = useAttempt();
  const { error } = attempt;
  const first = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => {
    if (diff === undefined && !error) first.current?.focus();
  }, [diff]);
  useLayoutEffect(() => {
    if (fields.some((f) => errorsAt(error, f).length > 0)) setDiff(undefined);
  }, [error]);
  const set = (change: Partial<typeof form>): void => setForm({ ...form, ...change });
  const next = (): RegisteredClient & { [name: string]: Json } => {
    const { limits: _, unlimited: __, block: ___, attributes: ____, id: _____, ...others } = was ?? { id: "" };
    return {
      id: form.id.trim(),
      ...given({ attributes: valuesByName(attributes) }),
      ...(form.grant === "limits" ? { limits: simple ? splitList(form.limits) : (was?.limits ?? []) } : {}),
      ...given({ unlimited: form.grant === "unlimited", block: form.grant === "block" }),
      ...(others as { [name: string]: Json }),
    };
  };
  const review = (): void =>
    void attempt.run(async () => {
      if (form.grant === "limits" && simple) await call("/v1/validate", { method: "POST", query: { namespace }, json: { id: "client", limits: splitList(form.limits) }, stay: true });
      setDiff(lineDiff(was ? yaml(was as { [name: string]: Json }) : "", yaml(next())));
    });
  const save = (): void =>
    void attempt.run(async () => {
      const options = { query: { namespace, note: note || undefined }, json: next(), stay: true };
      if (item) await call("/v1/clients/" + encodeURIComponent(item.client.id), { method: "PUT", ifMatch: item.revision, ...options });
      else await call("/v1/clients", { method: "POST", ...options });
      onDone(form.id.trim());
    });
  if (diff !== undefined) return <Review diff={diff} attempt={attempt} onSave={save} onBack={() => setDiff(undefined)} />;
  return (
    <Form attempt={attempt} fields={fields} onSubmit={review} submit="Review" onCancel={onCancel}>
      <div class="fields">
        <Field id="c-id" label="Id" help="Such as the name of the customer." errors={errorsAt(error, "id")}>
          {(props) => (
            <input {...props} ref={first} size={24} readOnly={item !== undefined} autocomplete="off" spellcheck={false} placeholder="acme" value={form.id} onInput={(e) => set({ id: e.currentTarget.value })} />
          )}
        </Field>
        <Field id="c-grant" label="The client gets">{(props) => <Choice props={props} of={grants} value={form.grant} onChange={(grant) => set({ grant: grant as Grant })} />}</Field>
        {form.grant === "limits" && simple && (
          <Field id="c-limits" label="Limits" class="wide" help="Such as 500/s burst 1000. Separate several with commas." errors={errorsAt(error, "limits")}>
            {(props) => <input {...props} autocomplete="off" spellcheck={false} placeholder="500/s" value={form.limits} onInput={(e) => set({ limits: e.currentTarget.value })} />}
          </Field>
        )}
      </div>
      {form.grant === "limits" && !simple && <Notice tone="plain">Its limits have names or fields that this form does not show. They stay as they are.</Notice>}
      <fieldset class="group">
        <legend>Attributes</legend>
        <p class="muted">Attributes of requests, such as user or api_key, identify the client; others, such as plan, are properties. Separate several values with commas. Without any, it is the user with this id.</p>
        <Attributes id="c" attributes={attributes} onChange={setAttributes} error={error} path="attributes" least={0} />
        <p>
          <button type="button" onClick={() => setAttributes([...attributes, { name: attributes.length === 0 ? "user" : "", value: "" }])}>
            Add an attribute
          </button>
        </p>
      </fieldset>
      <div class="fields">
        <NoteField id="c-note" note={note} onChange={setNote} error={error} />
      </div>
    </Form>
  );
}

function rows(was: RegisteredClient | undefined): Attribute[] {
  return Object.entries(was?.attributes ?? {}).map(([name, value]) => ({ name, value: Array.isArray(value) ? value.join(", ") : `${value}` }));
}

/** One value as a text, several as a list: a property must not be a list. */
function valuesByName(attributes: readonly Attribute[]): { [name: string]: Json } {
  const values: { [name: string]: Json } = {};
  for (const { name, value } of attributes) {
    const list = splitList(value);
    if (name.trim() !== "" && list.length > 0) values[name.trim()] = list.length === 1 ? (list[0] ?? "") : list;
  }
  return values;
}
