import { useLayoutEffect, useState } from "preact/hooks";

import { call, clock, Problem, type FieldError, type Override, type OverrideItem, type RulesPage } from "../api.ts";
import { useAttempt } from "../attempt.ts";
import { lineDiff } from "../linediff.ts";
import { given, splitList } from "../draft.ts";
import { localTime, span } from "../format.ts";
import { Attributes, valuesOf, type Attribute } from "../parts/attributes.tsx";
import { Field, Form, errorsAt } from "../parts/form.tsx";
import { Notice } from "../parts/notices.tsx";
import { Review } from "../parts/review.tsx";
import { useLoad } from "../poll.ts";
import { onForget } from "../session.ts";
import { yaml } from "../yaml.ts";

/** The client of the next override, set by another page. It is not in the address: it may be a secret. */
let meant: Attribute[] | undefined;
onForget(() => (meant = undefined));

export function forClient(who: Attribute[]): void {
  meant = who;
}

const fields = ["client", "rule", "limits", "expires", "note"];

type Gives = "limits" | "unlimited" | "block";

const gifts: [Gives, string][] = [
  ["limits", "other limits"],
  ["unlimited", "no limit"],
  ["block", "a block: every request is denied"],
];

const hour = 3_600_000;
const spans = [hour, 24 * hour, 7 * 24 * hour];

interface Props {
  namespace: string;
  /** The override to change; undefined for a new one. */
  item: OverrideItem | undefined;
  onDone: (saved: OverrideItem) => void;
  onCancel: () => void;
}

/** Creates or changes an override. */
export function OverrideForm({ namespace, item, onDone, onCancel }: Props) {
  const was = item?.override;
  const [client, setClient] = useState<Attribute[]>(() => (was ? Object.entries(was.client).map(([name, value]) => ({ name, value })) : (meant ?? [{ name: "user", value: "" }])));
  const [form, setForm] = useState({
    rule: was?.rule ?? "",
    gives: (was?.block ? "block" : was?.unlimited ? "unlimited" : "limits") as Gives,
    limits: (was?.limits ?? []).join(", "),
    until: localTime(was ? Date.parse(was.expires) : clock() + 24 * hour),
    note: was?.note ?? "",
  });
  const [base, setBase] = useState(item);
  const [diff, setDiff] = useState<string | undefined>();
  const attempt = useAttempt();
  const writing = diff === undefined;
  useLayoutEffect(() => {
    if (writing && !attempt.error) document.getElementById(was || client[0]?.value ? "o-limits" : "o-value-0")?.focus();
  }, [writing]);
  useLayoutEffect(() => () => (meant = undefined), []);
  const { data: rules } = useLoad((signal) => call<RulesPage>("/v1/rules", { query: { namespace, limit: "100" }, signal }), namespace);
  const set = (change: Partial<typeof form>): void => setForm({ ...form, ...change });

  const made = (): { client: Record<string, string>; expires: string } => {
    const { rule, gives, limits, until, note } = form;
    const at = new Date(until);
    // An unchanged time keeps its seconds.
    const expires = was && until === localTime(Date.parse(was.expires)) ? was.expires : Number.isNaN(at.getTime()) ? "" : at.toISOString().replace(".000Z", "Z");
    return {
      ...(was ? { id: was.id } : {}),
      client: valuesOf(client),
      ...given({ rule, limits: gives === "limits" ? splitList(limits) : [], unlimited: gives === "unlimited", block: gives === "block" }),
      expires,
      ...given({ note }),
    };
  };
  const review = (): void =>
    void attempt.run(async () => {
      const next = made();
      const wrong: FieldError[] = [];
      if (client.some((a) => a.name.trim() === "" || a.value === "")) wrong.push({ path: "client", want: "an attribute and its value, as in user and acme" });
      if (next.expires === "") wrong.push({ path: "expires", want: "a date and a time" });
      else if (Date.parse(next.expires) <= clock()) wrong.push({ path: "expires", want: "a time in the future" });
      if (form.gives === "limits" && splitList(form.limits).length === 0) wrong.push({ path: "limits", want: "a limit, as in 500/s" });
      if (wrong.length > 0) throw new Problem(422, "Some fields are missing or wrong.", wrong);
      // The limits are valid if a rule with them is.
      if (form.gives === "limits") await call("/v1/validate", { method: "POST", query: { namespace }, json: { id: "override", limits: splitList(form.limits) }, stay: true });
      setDiff(lineDiff(base ? yaml(base.override) : "", yaml(next)));
    });
  const save = (): void =>
    void attempt
      .run(async () => {
        const options = { query: { namespace }, json: made(), stay: true };
        onDone(
          base
            ? await call<OverrideItem>("/v1/overrides/" + encodeURIComponent(base.override.id), { method: "PUT", ifMatch: base.revision, ...options })
            : await call<OverrideItem>("/v1/overrides", { method: "POST", ...options }),
        );
      });
  const { error } = attempt;
  // Errors of fields are shown in the form.
  useLayoutEffect(() => {
    if (error instanceof Problem && error.status !== 412 && fields.some((f) => errorsAt(error, f).length > 0)) setDiff(undefined);
  }, [error]);
  const conflict = error instanceof Problem && error.status === 412 ? error : undefined;
  const there = conflict?.current;
  if (!writing) {
    return (
      <Review diff={diff} attempt={attempt} onSave={save} onBack={() => setDiff(undefined)}>
        {conflict && (
          <Notice tone="warn">
            <p>{conflict.message}</p>
            {there?.override && (
              <p>
                <button
                  type="button"
                  onClick={() => {
                    if (!there.override) return;
                    setBase({ ...there, override: there.override });
                    setDiff(lineDiff(yaml(there.override), yaml(made())));
                    attempt.clear();
                  }}
                >
                  Compare with the current version
                </button>
              </p>
            )}
          </Notice>
        )}
      </Review>
    );
  }
  return (
    <Form
      attempt={attempt}
      fields={fields}
      onSubmit={review}
      submit="Review"
      onCancel={onCancel}
    >
      <fieldset class="group">
        <legend>Client</legend>
        <Attributes id="o" attributes={client} onChange={setClient} error={error} path="client" least={1} />
        <p>
          <button type="button" onClick={() => setClient([...client, { name: "", value: "" }])}>
            Add an attribute
          </button>
        </p>
      </fieldset>
      <fieldset class="ways">
        <legend>Gets</legend>
        {gifts.map(([value, says]) => (
          <label key={value}>
            <input type="radio" name="gives" checked={form.gives === value} onChange={() => set({ gives: value })} /> {says}
          </label>
        ))}
      </fieldset>
      <div class="fields">
        {form.gives === "limits" && (
          <Field id="o-limits" label="Limits" class="wide" help="Such as 500/s or 10000/h. Separate several with commas." errors={errorsAt(error, "limits")}>
            {(props) => <input {...props} autocomplete="off" spellcheck={false} placeholder="500/s" value={form.limits} onInput={(e) => set({ limits: e.currentTarget.value })} />}
          </Field>
        )}
        <Field id="o-rule" label="Rule" class="wide" help="Empty: under every rule that counts by one of these attributes." errors={errorsAt(error, "rule")}>
          {(props) => <input {...props} list="rule-ids" autocomplete="off" spellcheck={false} placeholder="every rule" value={form.rule} onInput={(e) => set({ rule: e.currentTarget.value })} />}
        </Field>
        <datalist id="rule-ids">
          {(rules?.rules ?? []).map(({ rule }) => (
            <option key={rule.id} value={rule.id} />
          ))}
        </datalist>
      </div>
      <div class="fields">
        <Field id="o-until" label="Until, in your time zone" errors={[...errorsAt(error, "expires"), ...errorsAt(error, "for")]}>
          {(props) => <input {...props} type="datetime-local" value={form.until} onInput={(e) => set({ until: e.currentTarget.value })} />}
        </Field>
        <div class="beside row">
          {spans.map((ms) => (
            <button key={ms} type="button" onClick={() => set({ until: localTime(clock() + ms) })}>
              in {span(ms)}
            </button>
          ))}
        </div>
        <Field id="o-note" label="Reason" class="wide" errors={errorsAt(error, "note")}>
          {(props) => <input {...props} maxLength={1000} value={form.note} onInput={(e) => set({ note: e.currentTarget.value })} />}
        </Field>
      </div>
    </Form>
  );
}

/** The limits of an override. */
export function Grant({ of }: { of: Override }) {
  if (of.block) return <>blocked</>;
  if (of.unlimited) return <>no limit</>;
  return (
    <span class="badges">
      {(of.limits ?? []).map((l) => (
        <code key={l}>{l}</code>
      ))}
    </span>
  );
}
