import { useState } from "preact/hooks";

import { call, type Explained, type Keys } from "../api.ts";
import { plural } from "../format.ts";
import { Effect, Left, When } from "../parts/limits.tsx";
import { Badge, Empty, Notice, Wrong } from "../parts/marks.tsx";
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
      {found.keys.length === 0 ? <Empty title="No rule counts such a client." /> : <KeyTable keys={found.keys} />}
      <p class="muted">
        {plural(found.nodes.length - failed.length - silent, "node")} answered{silent > 0 && `, ${silent} silent and taken for gone`}.
        {found.more ? ` ${plural(found.more, "more rule")} count it: name more of its attributes.` : ""}
      </p>
    </section>
  );
}

function KeyTable({ keys }: { keys: Explained[] }) {
  return (
    <table class="grid" data-table="keys">
      <thead>
        <tr>
          <th scope="col">Rule</th>
          <th scope="col">Where</th>
          <th scope="col">Limit</th>
          <th scope="col">Left</th>
          <th scope="col">Then</th>
        </tr>
      </thead>
      <tbody>
        {keys.flatMap((k) =>
          (k.limits.length === 0 ? [undefined] : k.limits).map((l, i) => (
            <tr key={`${k.id} ${k.node} ${k.counters} ${i}`}>
              <th scope="row" data-label="Rule">
                <a href={"/rules/" + encodeURIComponent(k.id)}>{k.id}</a>
                {k.client && <span class="row-note">client {k.client}</span>}
              </th>
              <td data-label="Where">
                {k.counters ? <>shared, {k.counters}</> : k.node}
                {k.region && <span class="row-note">{k.region}</span>}
              </td>
              <td data-label="Limit">{l ? <code>{l.limit}</code> : <Effect rule={k} />}</td>
              <td data-label="Left">{l && <Left limit={l} />}</td>
              <td data-label="Then">
                {l && <When limit={l} />} {k.penalized && <Badge tone="warn">penalized</Badge>}
              </td>
            </tr>
          )),
        )}
      </tbody>
    </table>
  );
}
