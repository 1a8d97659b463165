// Replays the requests of the last hours under other limits of a rule.

import { useState } from "preact/hooks";

import { call, Problem, type Estimate, type RuleItem, type WhatIf } from "../api.ts";
import { useAttempt } from "../attempt.ts";
import { splitList } from "../draft.ts";
import { count, percent, stamp } from "../format.ts";
import { powers, type Session } from "../session.ts";
import { clientName, deniedPercent } from "../traffic.ts";
import { Curve } from "./curve.tsx";
import { Choice, errorsAt, Field, Form } from "./form.tsx";
import { Pairs } from "./limits.tsx";
import { Notice } from "./notices.tsx";
import { ChangeRule } from "./rulechange.tsx";
import { Table, type Column } from "./table.tsx";

const windows: [string, string][] = [
  ["15m", "15 minutes"],
  ["1h", "1 hour"],
  ["3h", "3 hours"],
];

/** A replay may take 20 s, and the nodes must send their samples first. */
const deadline = 60_000;

interface Props {
  session: Session;
  item: RuleItem;
  onChanged: () => void;
}

export function WhatIfPanel({ session, item, onChanged }: Props) {
  const { namespace } = session;
  const { id } = item.rule;
  const limits = item.rule["limits"];
  const current = (Array.isArray(limits) ? limits : [limits]).filter((l) => typeof l === "string").join(", ");
  const [form, setForm] = useState({ limits: current, window: "1h" });
  const [result, setResult] = useState<WhatIf | undefined>();
  const [applying, setApplying] = useState<string[] | undefined>();
  const attempt = useAttempt();
  const tryLimits = (text: string): void =>
    void attempt.run(async () => {
      setForm({ ...form, limits: text });
      setResult(undefined);
      if (splitList(text).length === 0) throw new Problem(422, "Enter the limits to try.", [{ path: "limits", want: "at least one limit, such as 10/s" }]);
      setResult(await call<WhatIf>("/v1/whatif", { method: "POST", query: { namespace }, json: { rule: id, limits: splitList(text), window: form.window, top: 10 }, deadline, stay: true }));
    });
  const change = powers(session).rules ? setApplying : undefined;
  return (
    <section aria-labelledby="whatif-title">
      <h2 id="whatif-title">What if</h2>
      <Form attempt={attempt} fields={["limits", "window"]} onSubmit={() => tryLimits(form.limits)} submit={attempt.busy ? "Replaying …" : "Try these limits"}>
        <p class="muted">Replay the requests of the last hours under other limits. Nothing is changed.</p>
        <div class="fields">
          <Field id="whatif-limits" label="Limits" class="wide" errors={errorsAt(attempt.error, "limits")}>
            {(props) => <input {...props} autocomplete="off" spellcheck={false} value={form.limits} onInput={(e) => setForm({ ...form, limits: e.currentTarget.value })} />}
          </Field>
          <Field id="whatif-window" label="Requests of the last" errors={errorsAt(attempt.error, "window")}>
            {(props) => <Choice props={props} of={windows} value={form.window} onChange={(window) => setForm({ ...form, window })} />}
          </Field>
        </div>
        {attempt.busy && <progress aria-label="Replaying requests" />}
      </Form>
      {result && <Outcome of={result} onTry={tryLimits} onApply={change} />}
      {applying && (
        <ChangeRule
          namespace={namespace}
          item={item}
          next={{ ...item.rule, limits: applying }}
          title={`Change the limits of ${id}?`}
          yes="Change the limits"
          says={<p>Every node applies the new limits within a second. Clients keep what they have consumed.</p>}
          note="limits tried with what-if"
          onClose={() => setApplying(undefined)}
          onDone={() => {
            setApplying(undefined);
            onChanged();
          }}
        />
      )}
    </section>
  );
}

interface OutcomeProps {
  of: WhatIf;
  onTry: (limits: string) => void;
  onApply: ((limits: string[]) => void) | undefined;
}

function Outcome({ of, onTry, onApply }: OutcomeProps) {
  const best = of.unaffected_99;
  const recommended = best && of.limits.with(of.curve_limit, best.limit);
  return (
    <div class="card outcome" data-whatif>
      <dl class="figures">
        <Figure name="Requests" of={of.requests} />
        <Figure name="Denied" of={of.denied} all={of.requests} before={of.current?.denied} bad />
        <Figure name="Clients affected" of={of.affected} all={of.clients} before={of.current?.affected} bad />
        {best && (
          <div>
            <dt>99 % of clients unaffected at</dt>
            <dd>
              <span class="figure">{best.limit}</span>
            </dd>
          </div>
        )}
      </dl>
      <p class="muted">
        Requests from {stamp(of.from)} to {stamp(of.to)}.
      </p>
      {of.sampled_one_in > 1 && <p class="muted">Estimated from a sample of 1 in {count(of.sampled_one_in)} clients. Intervals contain the truth with a probability of 95 %.</p>}
      {of.curve.length > 1 && of.requests.value > 0 && <Curve of={of} />}
      {[...(of.notes ?? []), ...(of.partial ? ["The replay took too long: the result is of a part of the requests."] : []), ...(of.error ? [`Some nodes failed: ${of.error}`] : [])].map((note) => (
        <Notice key={note} tone="plain">
          {note}
        </Notice>
      ))}
      {of.top.some((c) => c.denied > 0) && (
        <>
          <h3 id="whatif-clients">Most denied clients under {of.limits.join(", ")}</h3>
          <Table name="whatif-clients" label={{ by: "whatif-clients" }} columns={columns} rows={of.top.filter((c) => c.denied > 0)} keyOf={(c) => clientName(c.client)} />
        </>
      )}
      <p class="row">
        {recommended && recommended.join() !== of.limits.join() && (
          <button type="button" onClick={() => onTry(recommended.join(", "))}>
            Try {recommended.join(", ")}
          </button>
        )}
        {onApply && of.limits.join() !== of.current?.limits.join() && (
          <button type="button" onClick={() => onApply(of.limits)}>
            Use {of.limits.join(", ")} …
          </button>
        )}
      </p>
    </div>
  );
}

function Figure({ name, of, all, before, bad = false }: { name: string; of: Estimate; all?: Estimate; before?: Estimate | undefined; bad?: boolean }) {
  const exact = of.low === of.high;
  return (
    <div class={bad && of.value > 0 ? "tone-bad" : undefined}>
      <dt>{name}</dt>
      <dd>
        <span class="figure">{count(of.value)}</span>
        <span class="muted">
          {all && percent(deniedPercent(all.value, of.value))}
          {!exact && ` ${count(of.low)} to ${count(of.high)}`}
          {before && `, now ${count(before.value)}`}
        </span>
      </dd>
    </div>
  );
}

const columns: Column<WhatIf["top"][number]>[] = [
  { name: "Client", cell: ({ client }) => (Object.keys(client).length === 0 ? "all clients together" : <Pairs of={Object.entries(client)} />) },
  { name: "Requests", num: true, cell: (c) => count(c.requests) },
  { name: "Denied", num: true, value: (c) => c.denied, cell: (c) => count(c.denied) },
  { name: "Share denied", num: true, cell: (c) => percent(deniedPercent(c.requests, c.denied)) },
];
