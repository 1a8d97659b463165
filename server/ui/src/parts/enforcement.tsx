// Turns the enforcement of rules off for a time, and on again.

import { useState } from "preact/hooks";

import { call, type Suspension } from "../api.ts";
import { useAttempt } from "../attempt.ts";
import { offTimes, span } from "../format.ts";
import { isOwnSwitch, type State } from "../health.ts";
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

/**
 * Asks for how long a rule, a namespace or everything is not enforced. The banner shows it afterwards. A node with rules
 * of a file or of another rules service stops enforcing only itself.
 */
export function StopEnforcing({ session, rule, onClose }: Props) {
  const { namespace, who } = session;
  const alone = powers(session).enforcement === "node";
  const [scope, setScope] = useState<Scope>(rule ? "rule" : "namespace");
  const [ms, setMs] = useState(30 * minute);
  const [note, setNote] = useState("");
  const [token, setToken] = useState("");
  const scopes: [Scope, string][] = [];
  if (rule) scopes.push(["rule", `the rule ${rule}`]);
  scopes.push(["namespace", alone ? "all rules on this node" : `all rules of the namespace ${namespace}`]);
  if (!alone && who?.namespaces.includes("*")) scopes.push(["everything", "all rules of all namespaces"]);
  const stop = async (): Promise<void> => {
    const target = scope === "rule" ? { rule } : scope === "everything" ? { all_namespaces: true } : {};
    const json = { ...target, for: `${ms / minute}m` };
    await (alone ? switchNode("off", json, note, token) : call("/v1/enforcement:off", { method: "POST", query: { namespace, note: note || undefined }, json, stay: true }));
  };
  return (
    <Confirm title={alone ? "Stop enforcing limits on this node?" : "Stop enforcing limits?"} yes={`Stop for ${span(ms)}`} no="Cancel" onYes={stop} onDone={onClose} onClose={onClose}>
      <p>
        Requests over a limit are then admitted and counted, {alone ? "on this node only" : "on every node within a second"}. Blocks stay. Enforcement starts again by itself
        {alone ? ", also when the node restarts" : ""}.
      </p>
      <Field id="enforcement-scope" label="Stop enforcing">
        {(props) => <Choice props={props} of={scopes} value={scope} onChange={(value) => setScope(value as Scope)} />}
      </Field>
      <Field id="enforcement-for" label="For">
        {(props) => <Choice props={props} of={spans.map((s) => [`${s}`, span(s)])} value={`${ms}`} onChange={(value) => setMs(Number(value))} />}
      </Field>
      <Field id="enforcement-note" label={alone ? "Reason, for the log of this node" : "Reason, for the audit log"} class="full">
        {(props) => <input {...props} maxLength={1000} value={note} onInput={(e) => setNote(e.currentTarget.value)} />}
      </Field>
      {!who && <NodeToken value={token} onChange={setToken} />}
    </Confirm>
  );
}

/** The field for the token of a node that has no rules service of its own, where nobody can sign in. It is not stored. */
function NodeToken({ value, onChange }: { value: string; onChange: (token: string) => void }) {
  return (
    <Field id="enforcement-token" label="Token of this node, from its --admin-token-file" class="full">
      {(props) => <input {...props} type="password" autocomplete="off" spellcheck={false} value={value} onInput={(e) => onChange(e.currentTarget.value)} />}
    </Field>
  );
}

/** Turns enforcement off or on, on the node that serves the console. */
async function switchNode(to: "on" | "off", json: object, note: string, token: string): Promise<void> {
  const own = token.trim() === "" ? {} : { with: token.trim() };
  await call("/v1/node/enforcement:" + to, { method: "POST", query: { note: note || undefined }, json, stay: true, ...own });
}

/** Says on every page which rules are not enforced, where, and until when. */
export function SuspensionBanner({ state, session }: { state: State; session: Session | undefined }) {
  const now = useNow();
  const list = state.suspended;
  return (
    <div class="banner caution" role="alert" data-banner="enforcement">
      {list.slice(0, 5).map((s) => (
        <p key={`${s.namespace} ${s.rule} ${s.scope} ${s.node}`} class="row">
          <span>
            <strong>
              Enforcement is off: <Target of={s} shown={state.namespace} />.
            </strong>{" "}
            {offTimes(s, now)}. Requests over limits are admitted and counted. Turned off by {s.by}
            {s.note ? `: “${s.note}”` : ""}.
            {s.scope === "node" && !isOwnSwitch(state.here, s) && <OtherNode of={s} state={state} />}
          </span>
          {session && (s.scope !== "node" || isOwnSwitch(state.here, s)) && <EnforceAgain of={s} session={session} />}
        </p>
      ))}
      {list.length > 5 && <p>{list.length - 5} more rules are not enforced.</p>}
    </div>
  );
}

/** How to end a switch that was set on another node: only that node can. */
function OtherNode({ of, state }: { of: Suspension; state: State }) {
  const address = state.nodes.find((n) => n.id === of.node && (of.namespace === undefined || n.namespace === of.namespace))?.address ?? "URL";
  return (
    <>
      {" "}
      It was set on that node. To end it: <code>{`headgate enforce on ${of.rule ? of.rule + " " : ""}--this-node --server ${address}`}</code>
    </>
  );
}

/** The rules of a switch. Pages of rules are of the namespace that is shown. */
function Target({ of, shown }: { of: Suspension; shown: string }) {
  const other = of.namespace !== undefined && of.namespace !== shown;
  const node = of.scope === "node" ? ` on ${of.node ? `the node ${of.node}` : "this node"}` : "";
  const namespace = other || (of.namespace && !of.rule && !node) ? ` of ${of.namespace}` : "";
  if (!of.rule) return <>{`all rules${namespace}${node}`}</>;
  return (
    <>
      the rule {other ? of.rule : <a href={"/rules/" + encodeURIComponent(of.rule)}>{of.rule}</a>}
      {namespace + node}
    </>
  );
}

function EnforceAgain({ of, session }: { of: Suspension; session: Session }) {
  const attempt = useAttempt();
  const [done, setDone] = useState(false);
  const [asking, setAsking] = useState(false);
  const [token, setToken] = useState("");
  const onNode = of.scope === "node";
  const may = powers(session).enforcement;
  if (!may || (!onNode && may === "node")) return null;
  const json = of.rule ? { rule: of.rule } : {};
  const enforce = async (): Promise<void> => {
    if (onNode) await switchNode("on", json, "", token);
    else await call("/v1/enforcement:on", { method: "POST", query: { namespace: of.namespace ?? session.namespace }, json, stay: true });
    setDone(true);
  };
  return (
    <>
      <button type="button" aria-disabled={attempt.busy || done} onClick={() => (session.who ? void attempt.run(enforce) : setAsking(true))}>
        {done ? "Enforced again" : "Enforce again"}
      </button>
      {attempt.error && <span>{attempt.error.message}</span>}
      {asking && (
        <Confirm title="Enforce limits on this node again?" yes="Enforce again" no="Cancel" onYes={enforce} onDone={() => setAsking(false)} onClose={() => setAsking(false)}>
          <NodeToken value={token} onChange={setToken} />
        </Confirm>
      )}
    </>
  );
}
