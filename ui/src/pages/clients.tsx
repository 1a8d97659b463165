import { useState } from "preact/hooks";

import { call, type Keys } from "../api.ts";
import { plural } from "../format.ts";
import { Effect, leftColumn, limitsOf, When, type LimitOf } from "../parts/limits.tsx";
import { Badge, Empty, Notice, Wrong } from "../parts/marks.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { onForget } from "../session.ts";

interface Attribute {
  name: string;
  value: string;
}

/** What was asked stays while other pages are looked at, and is not put in the address: it may be a client's key. */
const nobody: Attribute[] = [{ name: "user", value: "" }];
let kept = nobody;
onForget(() => (kept = nobody));

const names = ["user", "api_key", "ip", "bearer", "host", "path", "method", "region", "header.", "cookie.", "query.", "jwt.", "descriptor."];

export function Clients({ namespace }: { namespace: string }) {
  const [attributes, setAttributes] = useState(kept);
  const [error, setError] = useState<Error | undefined>();
  const [busy, setBusy] = useState(false);
  const [found, setFound] = useState<Keys | undefined>();
  const set = (list: Attribute[]): void => {
    kept = list;
    setAttributes(list);
  };
  const ask = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      const query: Record<string, string> = {};
      for (const a of attributes) if (a.name.trim() !== "") query[a.name.trim()] = a.value;
      setFound(await call<Keys>("/v1/keys", { query: { ...query, namespace } }));
    } catch (err) {
      setFound(undefined);
      setError(err as Error);
    }
    setBusy(false);
  };
  return (
    <>
      <div class="page-head">
        <h1 tabIndex={-1}>Clients</h1>
        <p class="muted lead">What one client has left, under each rule that counts it and on each node. Nothing is taken.</p>
      </div>
      <form class="card form" onSubmit={(e) => void ask(e)}>
        <datalist id="names">
          {names.map((n) => (
            <option key={n} value={n} />
          ))}
        </datalist>
        {attributes.map((a, i) => (
          <div class="fields" key={i}>
            <div>
              <label for={`k-name-${i}`}>Attribute</label>
              <input id={`k-name-${i}`} list="names" size={14} required value={a.name} onInput={(e) => set(attributes.with(i, { ...a, name: e.currentTarget.value }))} />
            </div>
            <div class="wide">
              <label for={`k-value-${i}`}>Value</label>
              <input
                id={`k-value-${i}`}
                {...(i === 0 ? { "data-search": true } : {})}
                required
                autocomplete="off"
                spellcheck={false}
                value={a.value}
                onInput={(e) => set(attributes.with(i, { ...a, value: e.currentTarget.value }))}
              />
            </div>
            {attributes.length > 1 && (
              <div class="end">
                <button type="button" aria-label={`Leave ${a.name || "this attribute"} out`} onClick={() => set(attributes.filter((_, j) => j !== i))}>
                  Leave out
                </button>
              </div>
            )}
          </div>
        ))}
        <p class="row">
          <button type="submit" class="primary" disabled={busy}>
            {busy ? "Asking nodes …" : "Look up"}
          </button>
          <button type="button" onClick={() => set([...attributes, { name: "", value: "" }])}>
            And another attribute
          </button>
        </p>
      </form>
      {error && <Wrong error={error} />}
      {found && <Found found={found} />}
    </>
  );
}

function Found({ found }: { found: Keys }) {
  const failed = found.nodes.filter((n) => n.state === "failed");
  const silent = found.nodes.filter((n) => n.state === "silent").length;
  return (
    <section aria-label="What was found">
      {failed.length > 0 && (
        <Notice tone="warn">
          <p>{plural(failed.length, "node")} did not answer. What they count by themselves is missing:</p>
          <ul>
            {failed.map((n) => (
              <li key={n.id}>
                <strong>{n.id}</strong>: {n.error}
              </li>
            ))}
          </ul>
        </Notice>
      )}
      {failed.length === 0 && found.error && <Notice tone="warn">{found.error}</Notice>}
      <Table name="keys" label="What is left" columns={columns} rows={limitsOf(found.keys)} keyOf={(l) => l.key} empty={<Empty title="No rule counts such a client." />} />
      <p class="muted">
        {plural(found.nodes.length - failed.length - silent, "node")} answered{silent > 0 && `, ${silent} silent and taken for gone`}.
        {found.more ? ` ${plural(found.more, "more rule")} count it: name more of its attributes.` : ""}
      </p>
    </section>
  );
}

const columns: Column<LimitOf>[] = [
  {
    name: "Rule",
    cell: ({ rule }) => (
      <>
        <a href={"/rules/" + encodeURIComponent(rule.id)}>{rule.id}</a>
        {rule.client && <span class="row-note">client {rule.client}</span>}
      </>
    ),
  },
  {
    name: "Where",
    cell: ({ rule }) => (
      <>
        {rule.counters ? <>shared, {rule.counters}</> : rule.node}
        {rule.region && <span class="row-note">{rule.region}</span>}
      </>
    ),
  },
  { name: "Limit", cell: ({ rule, limit }) => (limit ? <code>{limit.limit}</code> : <Effect rule={rule} />) },
  leftColumn,
  {
    name: "Then",
    cell: ({ rule, limit }) => (
      <>
        {limit && <When limit={limit} />} {rule.penalized && <Badge tone="warn">penalized</Badge>}
      </>
    ),
  },
];
