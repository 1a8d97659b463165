import { useEffect, useState } from "preact/hooks";

import { call, type Keys, type Reset } from "../api.ts";
import { useAttempt } from "../attempt.ts";
import { count, plural, sentence } from "../format.ts";
import { reasonOf } from "../failure.ts";
import { Attributes, valuesOf, type Attribute } from "../parts/attributes.tsx";
import { Confirm } from "../parts/confirm.tsx";
import { Form } from "../parts/form.tsx";
import { Effect, leftColumn, limitsOf, Pairs, When, type LimitOf } from "../parts/limits.tsx";
import { Badge, Empty, Notice } from "../parts/notices.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { go } from "../route.ts";
import { onForget, powers, type Session } from "../session.ts";
import { ClientSeries } from "../parts/clientseries.tsx";
import { ClientTrafficList } from "../parts/clienttraffic.tsx";
import { LastDecisions } from "../parts/decisions.tsx";
import { isShortened } from "../traffic.ts";
import { BlockClient } from "../parts/block.tsx";
import { EraseClient } from "../parts/eraseclient.tsx";
import { SimilarClients } from "../parts/similarclients.tsx";
import { forClient } from "./override.tsx";
import { RegisteredClients } from "./registered.tsx";

/** The input is kept while other pages are open, and not in the address: it may be a secret. */
const nobody: Attribute[] = [{ name: "user", value: "" }];
let kept = nobody;
/** The client in kept is to be looked up: a table of this or another page has opened it. */
let wanted = false;
/** Looks up the client in kept, while this page is shown. */
let lookUpNow: (() => void) | undefined;
onForget(() => {
  kept = nobody;
  wanted = false;
});

/** Shows the limits of a client on this page. */
export function openClient(client: Record<string, string>): void {
  kept = Object.entries(client).map(([name, value]) => ({ name, value }));
  wanted = true;
  if (lookUpNow && location.pathname === "/clients") lookUpNow();
  else go("/clients");
}

/** The result of a lookup. The form may name another client meanwhile. */
interface Found {
  who: Attribute[];
  /** Undefined if a value is a hash, with which limits cannot be looked up. */
  keys: Keys | undefined;
}

export function Clients({ session, query }: { session: Session; query: URLSearchParams }) {
  return query.has("registered") ? <RegisteredClients session={session} /> : <ClientLookup session={session} />;
}

/** Links to the two parts of the page. */
export function ClientTabs({ registered }: { registered: boolean }) {
  return (
    <nav class="tabs" aria-label="Parts of this page">
      <a href="/clients" aria-current={registered ? undefined : "page"}>
        Look up
      </a>
      <a href="/clients?registered" aria-current={registered ? "page" : undefined}>
        Registered clients
      </a>
    </nav>
  );
}

function ClientLookup({ session }: { session: Session }) {
  const { namespace } = session;
  const [attributes, setAttributes] = useState(kept);
  const [found, setFound] = useState<Found | undefined>();
  const [reset, setReset] = useState<Reset | undefined>();
  const [erasing, setErasing] = useState(false);
  const [erased, setErased] = useState("");
  const attempt = useAttempt();
  const lookUp = (who: Attribute[]): Promise<boolean> =>
    attempt.run(async () => {
      setErased("");
      const client = valuesOf(who);
      setFound({ who, keys: isShortened(client) ? undefined : await call<Keys>("/v1/keys", { query: { ...client, namespace } }) });
    });
  useEffect(() => {
    lookUpNow = (): void => {
      wanted = false;
      setAttributes(kept);
      setReset(undefined);
      void lookUp(kept).then(() => document.querySelector("main h1")?.scrollIntoView());
    };
    if (wanted) lookUpNow();
    return () => (lookUpNow = undefined);
  }, []);
  return (
    <>
      <div class="page-head">
        <h1 tabIndex={-1}>Clients</h1>
        <p class="muted lead">
          A client's limits and what remains, its requests over time, and the last decisions about it. No limit is consumed. If you only know a part of a name, use the search below.
        </p>
      </div>
      <ClientTabs registered={false} />
      <Form
        attempt={attempt}
        fields={[]}
        onSubmit={() => {
          setFound(undefined);
          setReset(undefined);
          void lookUp(attributes);
        }}
        submit={attempt.busy ? "Looking up …" : "Look up"}
        others={
          <button type="button" onClick={() => setAttributes([...attributes, { name: "", value: "" }])}>
            Add an attribute
          </button>
        }
      >
        <Attributes
          id="k"
          attributes={attributes}
          least={1}
          search
          onChange={(list) => {
            kept = list;
            setAttributes(list);
          }}
        />
      </Form>
      {reset && (
        <Notice tone={reset.error ? "warn" : "good"}>
          {reset.reset.length === 0 ? "No rule counts this client: there was nothing to reset." : `Its consumption was reset under ${reset.reset.join(", ")}.`}
          {reset.error && ` Some nodes failed: ${reset.error}`}
        </Notice>
      )}
      {found && (
        <>
          <div class="section-head" data-client>
            <h2 class="client-name">
              <Pairs of={found.who.map((a) => [a.name, a.value])} />
            </h2>
            <span class="head-tools">
              {powers(session).counters && (
                <button type="button" onClick={() => setErasing(true)}>
                  Erase its statistics …
                </button>
              )}
              <button type="button" onClick={() => setFound(undefined)}>
                Close
              </button>
            </span>
          </div>
          {erasing && (
            <EraseClient
              namespace={namespace}
              client={valuesOf(found.who)}
              onClose={() => setErasing(false)}
              onDone={(text) => {
                setErasing(false);
                setErased(text);
              }}
            />
          )}
          {erased !== "" && <Notice tone="good">{erased}</Notice>}
          {found.keys ? (
            <FoundKeys
              who={found.who}
              found={found.keys}
              session={session}
              onReset={(done) => {
                setReset(done);
                void lookUp(found.who);
              }}
            />
          ) : (
            <Notice tone="plain">This is the hash of a secret. To see its limits, to reset or to block it, look up the whole secret: it is hashed and not stored.</Notice>
          )}
          <SimilarClients session={session} client={valuesOf(found.who)} />
          <ClientSeries key={JSON.stringify(found.who)} session={session} client={valuesOf(found.who)} />
          <LastDecisions key={JSON.stringify([found.who])} session={session} client={valuesOf(found.who)} />
        </>
      )}
      {!found && <ClientTrafficList session={session} />}
    </>
  );
}

function FoundKeys({ who, found, session, onReset }: { who: Attribute[]; found: Keys; session: Session; onReset: (reset: Reset) => void }) {
  const may = powers(session);
  // The rule to reset the client under, "" for all.
  const [resetting, setResetting] = useState<string | undefined>();
  const [blocking, setBlocking] = useState(false);
  const [blocked, setBlocked] = useState("");
  const failed = found.nodes.filter((n) => n.state === "failed");
  const silent = found.nodes.filter((n) => n.state === "silent").length;
  const known = found.nodes.length - failed.length - silent;
  const rules = [...new Set(found.keys.map((k) => k.id))];
  return (
    <section aria-label="Limits of the client">
      {blocked !== "" && <Notice tone="good">{blocked}</Notice>}
      {failed.length > 0 && (
        <Notice tone="warn">
          <p>{plural(failed.length, "node does not know", "nodes do not know")} what remains:</p>
          <ul>
            {failed.map((n) => (
              <li key={n.id}>
                <strong>{n.id}</strong>: {sentence(reasonOf(n.error ?? "no response"))}
              </li>
            ))}
          </ul>
        </Notice>
      )}
      {failed.length === 0 && found.error && <Notice tone="warn">{sentence(found.error)}</Notice>}
      <Table
        name="keys"
        label="What remains"
        columns={may.counters ? [...columns, resetColumn(setResetting)] : columns}
        rows={limitsOf(found.keys)}
        keyOf={(l) => l.key}
        groupOf={({ rule }) => rule.id}
        empty={<Empty title="No rule counts this client." />}
      />
      <p class="muted">
        {known > 0 ? `From ${plural(known, "node")}` : "No node knows what remains"}
        {silent > 0 && `; ${plural(silent, "node is", "nodes are")} silent`}.
        {found.more ? ` ${plural(found.more, "more rule")} count this client: add more of its attributes to see them.` : ""}
      </p>
      {rules.length > 0 && (may.counters || may.overrides) && (
        <p class="row">
          {may.counters && rules.length > 1 && (
            <button type="button" onClick={() => setResetting("")}>
              Reset under all {count(rules.length)} rules …
            </button>
          )}
          {may.overrides && (
            <button
              type="button"
              onClick={() => {
                forClient(who);
                go("/overrides?new");
              }}
            >
              Other limits for a time …
            </button>
          )}
          {may.overrides && (
            <button type="button" onClick={() => setBlocking(true)}>
              Block for a time …
            </button>
          )}
        </p>
      )}
      {blocking && (
        <BlockClient
          namespace={session.namespace}
          client={valuesOf(who)}
          onClose={() => setBlocking(false)}
          onDone={(text) => {
            setBlocking(false);
            setBlocked(text);
          }}
        />
      )}
      {resetting !== undefined && (
        <Confirm
          title={resetting === "" ? `Reset this client under all ${count(rules.length)} rules?` : `Reset this client under ${resetting}?`}
          yes={resetting === "" ? "Reset under all rules" : "Reset"}
          no="Cancel"
          onClose={() => setResetting(undefined)}
          onYes={async () => {
            const asked = { attributes: valuesOf(who), ...(resetting === "" ? {} : { rule: resetting }) };
            onReset(await call<Reset>("/v1/keys:reset", { method: "POST", query: { namespace: session.namespace }, json: asked, stay: true }));
          }}
          onDone={() => setResetting(undefined)}
        >
          <p>
            <Pairs of={who.map((a) => [a.name, a.value])} />
          </p>
          <p>Its consumption is reset on every node: its limits are full again{resetting === "" ? `, under ${rules.join(", ")}` : ""}. This cannot be undone.</p>
        </Confirm>
      )}
    </section>
  );
}

function resetColumn(onReset: (rule: string) => void): Column<LimitOf> {
  return {
    name: "Reset",
    common: true,
    cell: ({ rule }) => (
      <button type="button" aria-label={`Reset it under ${rule.id}`} onClick={() => onReset(rule.id)}>
        Reset …
      </button>
    ),
  };
}

const columns: Column<LimitOf>[] = [
  {
    name: "Rule",
    common: true,
    cell: ({ rule }) => (
      <>
        <a href={"/rules/" + encodeURIComponent(rule.id)}>{rule.id}</a>
        {rule.client && (
          <span class="row-note">
            {rule.client.startsWith("override:") ? (
              <>
                by an <a href="/overrides">override</a>
              </>
            ) : (
              `client ${rule.client}`
            )}
          </span>
        )}
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
    name: "Next",
    cell: ({ rule, limit }) => (
      <>
        {limit && <When limit={limit} />} {rule.penalized && <Badge tone="warn">penalized</Badge>}
      </>
    ),
  },
];
