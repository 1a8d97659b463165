// Turns the enforcement of rules off for a time, and on again.

import { useState } from "preact/hooks";

import { call, type Suspension } from "../api.ts";
import { useAttempt } from "../attempt.ts";
import { ago, span, stamp } from "../format.ts";
import { useNow } from "../poll.ts";
import { powers, type Session } from "../session.ts";
import { Confirm } from "./confirm.tsx";
import { Choice, Field } from "./form.tsx";

const minute = 60_000;
const spans = [10 * minute, 30 * minute, 60 * minute, 4 * 60 * minute, 24 * 60 * minute];

type Scope = "rule" | "namespace" | "everything";

interface Props {
  session: Session;
  /** The rule whose page it is. */
  rule?: string;
  onClose: () => void;
}

/** Asks for how long a rule, a namespace or everything is not enforced. The banner shows it afterwards. */
export function StopEnforcing({ session, rule, onClose }: Props) {
  const { namespace, who } = session;
  const [scope, setScope] = useState<Scope>(rule ? "rule" : "namespace");
  const [ms, setMs] = useState(30 * minute);
  const [note, setNote] = useState("");
  const scopes: [Scope, string][] = [];
  if (rule) scopes.push(["rule", `the rule ${rule}`]);
  scopes.push(["namespace", `all rules of the namespace ${namespace}`]);
  if (who?.namespaces.includes("*")) scopes.push(["everything", "all rules of all namespaces"]);
  const stop = async (): Promise<void> => {
    const target = scope === "rule" ? { rule } : scope === "everything" ? { all_namespaces: true } : {};
    await call("/v1/enforcement:off", { method: "POST", query: { namespace, note: note || undefined }, json: { ...target, for: `${ms / minute}m` }, stay: true });
  };
  return (
    <Confirm title="Stop enforcing limits?" yes={`Stop for ${span(ms)}`} no="Cancel" onYes={stop} onDone={onClose} onClose={onClose}>
      <p>Requests over a limit are then admitted and counted, on every node within a second. Blocks stay. Enforcement starts again by itself.</p>
      <Field id="enforcement-scope" label="Stop enforcing">
        {(props) => <Choice props={props} of={scopes} value={scope} onChange={(value) => setScope(value as Scope)} />}
      </Field>
      <Field id="enforcement-for" label="For">
        {(props) => <Choice props={props} of={spans.map((s) => [`${s}`, span(s)])} value={`${ms}`} onChange={(value) => setMs(Number(value))} />}
      </Field>
      <Field id="enforcement-note" label="Reason, for the audit log" class="full">
        {(props) => <input {...props} maxLength={1000} value={note} onInput={(e) => setNote(e.currentTarget.value)} />}
      </Field>
    </Confirm>
  );
}

/** Says on every page which rules are not enforced, and until when. */
export function SuspensionBanner({ list, session }: { list: readonly Suspension[]; session: Session | undefined }) {
  const now = useNow();
  const may = session !== undefined && powers(session).enforcement;
  return (
    <div class="banner caution" role="alert" data-banner="enforcement">
      {list.slice(0, 5).map((s) => (
        <p key={`${s.namespace} ${s.rule} ${s.scope}`} class="row">
          <span>
            <strong>
              Enforcement is off: <Target of={s} />.
            </strong>{" "}
            Requests over limits are admitted and counted. It ends {ago(s.expires, now)}, at {stamp(s.expires).slice(11, 16)}; turned off by {s.by}
            {s.note ? `: “${s.note}”` : ""}.
          </span>
          {may && s.scope !== "node" && <EnforceAgain of={s} namespace={session.namespace} />}
        </p>
      ))}
      {list.length > 5 && <p>{list.length - 5} more rules are not enforced.</p>}
    </div>
  );
}

function Target({ of }: { of: Suspension }) {
  const where = of.scope === "node" ? " on this node" : of.namespace && of.namespace !== "default" ? ` of ${of.namespace}` : "";
  if (!of.rule) return <>all rules{where || (of.namespace ? ` of ${of.namespace}` : "")}</>;
  return (
    <>
      the rule <a href={"/rules/" + encodeURIComponent(of.rule)}>{of.rule}</a>
      {where}
    </>
  );
}

function EnforceAgain({ of, namespace }: { of: Suspension; namespace: string }) {
  const attempt = useAttempt();
  const [done, setDone] = useState(false);
  const enforce = (): void =>
    void attempt.run(async () => {
      await call("/v1/enforcement:on", { method: "POST", query: { namespace: of.namespace ?? namespace }, json: of.rule ? { rule: of.rule } : {}, stay: true });
      setDone(true);
    });
  return (
    <>
      <button type="button" aria-disabled={attempt.busy || done} onClick={enforce}>
        {done ? "Enforced again" : "Enforce again"}
      </button>
      {attempt.error && <span>{attempt.error.message}</span>}
    </>
  );
}
