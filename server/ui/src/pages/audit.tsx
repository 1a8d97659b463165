import { useState } from "preact/hooks";

import { call, type AuditPage, type Difference, type FailedLogin, type Revision } from "../api.ts";
import { lineDiff } from "../linediff.ts";
import { count, plural, stamp } from "../format.ts";
import { Diff } from "../parts/diff.tsx";
import { ActionBadge, Badge, Empty, Loading, ErrorNotice } from "../parts/notices.tsx";
import { Pager, usePages } from "../parts/pager.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { useLoad } from "../poll.ts";
import { yaml } from "../yaml.ts";

const kinds: readonly [string, string][] = [
  ["rule", "rules"],
  ["client", "clients"],
  ["override", "overrides"],
  ["suspension", "enforcement"],
  ["token", "tokens"],
  ["webhook", "webhooks"],
  ["event", "events"],
];

/** The audit log of all namespaces of the token. */
export function Audit() {
  const [kind, setKind] = useState("");
  const pages = usePages();
  const { data, error } = useLoad(
    (signal) => call<AuditPage>("/v1/audit", { query: { kind: kind || undefined, cursor: pages.cursor, limit: "30" }, signal }),
    JSON.stringify([kind, pages.cursor]),
  );
  return (
    <>
      <div class="page-head">
        <h1 tabIndex={-1}>Audit</h1>
        <p class="muted lead">All changes in the namespaces of your token: who made them, when, from where, and the difference.</p>
      </div>
      <div class="toolbar">
        <label for="kind">Show changes of</label>
        <select
          id="kind"
          value={kind}
          onChange={(e) => {
            pages.first();
            setKind(e.currentTarget.value);
          }}
        >
          <option value="">everything</option>
          {kinds.map(([kind, name]) => (
            <option key={kind} value={kind}>
              {name}
            </option>
          ))}
        </select>
      </div>
      {error && <ErrorNotice error={error} />}
      {!data && !error && <Loading what="the audit" />}
      {data && (
        <Table name="audit" label="Changes" columns={columns} rows={data.audit} keyOf={(r) => `${r.revision}`} empty={<Empty title="There are no such changes, or they are older than the log." />} />
      )}
      {data && <Pager pages={pages} next={data.next} label="Pages of the audit" words={["Later", "Earlier"]} />}
      {data?.failed_logins && data.failed_logins.count > 0 && (
        <section aria-labelledby="logins-title">
          <h2 id="logins-title">Refused tokens</h2>
          <p class="muted">{plural(data.failed_logins.count, "refused token")} since the rules service started. The latest:</p>
          <Table name="logins" label={{ by: "logins-title" }} columns={loginColumns} rows={data.failed_logins.recent.slice(-10).reverse()} keyOf={(l) => `${l.time} ${l.from}`} />
        </section>
      )}
    </>
  );
}

const columns: Column<Revision>[] = [
  { name: "Time", cell: ({ time }) => <Stamp of={time} /> },
  {
    name: "User",
    cell: ({ actor, from }) => (
      <>
        {actor}
        {from && <span class="row-note">from {from}</span>}
      </>
    ),
  },
  {
    name: "Action",
    cell: ({ action, note, revision }) => (
      <>
        <code>{action}</code> <span class="row-note">revision {count(revision)}</span>
        {note && <span class="row-note note">“{note}”</span>}
      </>
    ),
  },
  { name: "Namespace", cell: ({ namespace }) => namespace },
  { name: "Changes", large: true, cell: (r) => <What of={r} /> },
];

function Stamp({ of }: { of: string }) {
  return <span class="num stamp">{stamp(of)}</span>;
}

/** The first changed objects, each with its difference. */
function What({ of }: { of: Revision }) {
  const list = of.diff ?? [];
  return (
    <div class="what">
      {list.slice(0, 5).map((d) => (
        <details key={`${d.kind} ${d.id}`}>
          <summary>
            {d.kind !== "event" && <ActionBadge action={d.action} />} {d.kind} {d.id}
          </summary>
          <Change of={d} />
        </details>
      ))}
      {of.count > Math.min(5, list.length) && <span class="muted">and {plural(of.count - Math.min(5, list.length), "other")}</span>}
    </div>
  );
}

function Change({ of }: { of: Difference }) {
  return <Diff text={lineDiff(of.before ? yaml(of.before) : "", of.after ? yaml(of.after) : "")} />;
}

const loginColumns: Column<FailedLogin>[] = [
  { name: "Time", cell: ({ time }) => <Stamp of={time} /> },
  { name: "From", cell: ({ from }) => from },
  { name: "Response", cell: ({ denied }) => (denied ? <Badge tone="warn">blocked for a time</Badge> : "refused") },
];
