import { useState } from "preact/hooks";

import { call, type Explanation } from "../api.ts";
import { useAttempt } from "../attempt.ts";
import { readCurl } from "../curl.ts";
import { count, sentence, span, wait } from "../format.ts";
import { pairs } from "../pairs.ts";
import { Effect, KeyOf, leftColumn, limitsOf, When, type LimitOf } from "../parts/limits.tsx";
import { Badge, Empty, Notice, ErrorNotice } from "../parts/notices.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { onForget } from "../session.ts";

type Way = "curl" | "request" | "attributes";

/** The input is kept while other pages are open, and not in the address: it may contain a secret. */
const sample = { way: "request" as Way, curl: "", method: "GET", url: "https://api.example.com/search?q=x", ip: "203.0.113.7", headers: "", attributes: "user=alice\npath=/search\nmethod=GET", cost: "" };
const kept = { ...sample };
onForget(() => Object.assign(kept, sample));

export function Explain({ namespace, query }: { namespace: string; query: URLSearchParams }) {
  const [form, setForm] = useState({ ...kept, rule: query.get("rule") ?? "" });
  const [explanation, setExplanation] = useState<Explanation | undefined>();
  const [ignored, setIgnored] = useState<string[]>([]);
  const attempt = useAttempt();
  const set = (change: Partial<typeof form>): void => {
    Object.assign(kept, change);
    setForm({ ...form, ...change });
  };
  const ask = (event: Event): void => {
    event.preventDefault();
    const json: Record<string, unknown> = {};
    setIgnored([]);
    if (form.way === "curl") {
      try {
        const { method, url, headers, ignored } = readCurl(form.curl);
        setIgnored(ignored);
        json["request"] = { method, url, ip: form.ip, headers: pairs(headers, ":") };
      } catch (err) {
        setExplanation(undefined);
        void attempt.run(() => Promise.reject(err as Error));
        return;
      }
    } else if (form.way === "attributes") json["attributes"] = pairs(form.attributes, "=");
    else json["request"] = { method: form.method, url: form.url, ip: form.ip, headers: pairs(form.headers, ":") };
    if (form.rule !== "") json["rule"] = form.rule;
    if (form.cost !== "") json["cost"] = Number(form.cost);
    setExplanation(undefined);
    void attempt.run(async () => setExplanation(await call<Explanation>("/v1/explain", { method: "POST", query: { namespace }, json })));
  };
  return (
    <>
      <div class="page-head">
        <h1 tabIndex={-1}>Explain</h1>
        <p class="muted lead">Which rules match a request, and what each would decide now. No limit is consumed.</p>
      </div>
      <form class="card form" onSubmit={ask}>
        <fieldset class="ways">
          <legend>Describe the request by</legend>
          {(["curl", "request", "attributes"] as const).map((way) => (
            <label key={way}>
              <input type="radio" name="way" checked={form.way === way} onChange={() => set({ way })} /> {{ curl: "a curl command", request: "a request", attributes: "attributes" }[way]}
            </label>
          ))}
        </fieldset>
        {form.way === "curl" && (
          <div class="fields">
            <div class="full">
              <label for="x-curl">curl command</label>
              <textarea
                id="x-curl"
                class="code"
                rows={4}
                spellcheck={false}
                placeholder="curl -H 'X-API-Key: alice' https://api.example.com/search"
                value={form.curl}
                onInput={(e) => set({ curl: e.currentTarget.value })}
              />
            </div>
            <div>
              <label for="x-ip">From the address</label>
              <input id="x-ip" size={16} value={form.ip} onInput={(e) => set({ ip: e.currentTarget.value })} />
            </div>
          </div>
        )}
        {form.way === "request" && (
          <div class="fields">
            <div>
              <label for="x-method">Method</label>
              <input id="x-method" list="methods" size={8} value={form.method} onInput={(e) => set({ method: e.currentTarget.value })} />
              <datalist id="methods">
                {["GET", "POST", "PUT", "PATCH", "DELETE"].map((m) => (
                  <option key={m} value={m} />
                ))}
              </datalist>
            </div>
            <div class="wide">
              <label for="x-url">URL</label>
              <input id="x-url" required value={form.url} onInput={(e) => set({ url: e.currentTarget.value })} />
            </div>
            <div>
              <label for="x-ip">From</label>
              <input id="x-ip" size={16} value={form.ip} onInput={(e) => set({ ip: e.currentTarget.value })} />
            </div>
            <div class="full">
              <label for="x-headers">Headers, one per line</label>
              <textarea id="x-headers" class="code" rows={3} spellcheck={false} placeholder="X-API-Key: alice" value={form.headers} onInput={(e) => set({ headers: e.currentTarget.value })} />
            </div>
          </div>
        )}
        {form.way === "attributes" && (
          <div class="fields">
            <div class="full">
              <label for="x-attributes">Attributes, one per line</label>
              <textarea id="x-attributes" class="code" rows={5} spellcheck={false} value={form.attributes} onInput={(e) => set({ attributes: e.currentTarget.value })} />
            </div>
          </div>
        )}
        <div class="fields">
          <div>
            <label for="x-rule">Rule</label>
            <input id="x-rule" placeholder="all that match" value={form.rule} onInput={(e) => set({ rule: e.currentTarget.value })} />
          </div>
          <div>
            <label for="x-cost">Cost</label>
            <input id="x-cost" type="number" min={0} size={8} placeholder="from the rules" value={form.cost} onInput={(e) => set({ cost: e.currentTarget.value })} />
          </div>
          <div class="end">
            <button type="submit" class="primary" aria-disabled={attempt.busy}>
              {attempt.busy ? "Explaining …" : "Explain"}
            </button>
          </div>
        </div>
      </form>
      {attempt.error && <ErrorNotice error={attempt.error} />}
      {ignored.length > 0 && (
        <Notice tone="warn">
          <p>These parts of the curl command were ignored:</p>
          <ul>
            {ignored.map((part) => (
              <li key={part}>{part}</li>
            ))}
          </ul>
        </Notice>
      )}
      {explanation?.unused_headers && (
        <Notice tone="plain">
          No rule uses {explanation.unused_headers.length === 1 ? "the header" : "the headers"} {explanation.unused_headers.join(", ")}.
        </Notice>
      )}
      {explanation && <Decision of={explanation} />}
    </>
  );
}

const verdicts = { allow: ["good", "It would pass"], delay: ["warn", "It would be delayed"], reject: ["bad", "It would be denied"], drop: ["bad", "It would be dropped"] } as const;

function Decision({ of: explanation }: { of: Explanation }) {
  const [tone, words] = verdicts[explanation.action];
  return (
    <section aria-label="The decision">
      <Notice tone={tone}>
        <p>
          <strong>
            {words}
            {explanation.status ? ` with ${explanation.status}` : ""}.
          </strong>{" "}
          {explanation.rule && <>The rule {explanation.rule} decides{explanation.reason ? `: ${explanation.reason}` : ""}. </>}
          {explanation.action === "reject" || explanation.action === "drop" ? <>{explanation.retry_after_ms < 0 ? "It never passes" : `It passes ${wait(explanation.retry_after_ms)}`}. </> : null}
          {explanation.delay_ms > 0 && <>It waits {span(explanation.delay_ms)}. </>}
          {explanation.degraded && "The store is unreachable: on_failure decides. "}
          {explanation.error && <>The decision is incomplete: {sentence(explanation.error)}</>}
        </p>
      </Notice>
      <Table
        name="explained"
        label="Decision of each rule"
        columns={columns(explanation.rule)}
        rows={limitsOf(explanation.rules)}
        keyOf={(l) => l.key}
        groupOf={({ rule }) => rule.id}
        empty={<Empty title="No rule limits this request." />}
      />
    </section>
  );
}

function columns(binds: string | undefined): Column<LimitOf>[] {
  return [
    {
      name: "Rule",
      common: true,
      cell: ({ rule: r }) => (
        <>
          <a href={"/rules/" + encodeURIComponent(r.id)}>{r.id}</a>
          <span class="row-note">
            {r.mode}
            {r.cost !== 1 && `, costs ${count(r.cost)}`}
            {r.client && `, client ${r.client}`}
          </span>
        </>
      ),
    },
    {
      name: "Decision",
      common: true,
      cell: ({ rule }) => (
        <>
          <Effect rule={rule} /> {rule.id === binds && <Badge tone="plain">decides</Badge>}
        </>
      ),
    },
    { name: "Client", common: true, cell: ({ rule }) => <KeyOf rule={rule} /> },
    { name: "Limit", cell: ({ limit }) => (limit ? <code>{limit.limit}</code> : <span class="muted">none</span>) },
    leftColumn,
    { name: "Next", cell: ({ limit }) => limit && <When limit={limit} /> },
  ];
}
