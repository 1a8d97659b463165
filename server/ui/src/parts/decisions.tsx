// The last decisions about a client.

import { useState } from "preact/hooks";

import { count, span, stamp } from "../format.ts";
import { usePoll } from "../poll.ts";
import type { Session } from "../session.ts";
import { isUnavailable, readDecisions, type Decision, type VerdictName } from "../traffic.ts";
import { Badge, ErrorNotice, Loading, Notice, type Tone } from "./notices.tsx";
import { Table, type Column } from "./table.tsx";

/** The number of decisions shown. */
const most = 15;

const verdicts: Record<VerdictName, [Tone, string]> = {
  allow: ["good", "allowed"],
  delay: ["warn", "delayed"],
  reject: ["bad", "denied"],
  drop: ["bad", "dropped"],
  block: ["bad", "blocked"],
  shadow: ["warn", "would be denied"],
};

export function LastDecisions({ session, client }: { session: Session; client: Record<string, string> }) {
  const { namespace } = session;
  const [denied, setDenied] = useState(false);
  const { data, error } = usePoll((signal) => readDecisions({ namespace, client, denied, limit: most, signal }), JSON.stringify([namespace, client, denied]));
  if (isUnavailable(error)) return null;
  const oneIn = Math.max(1, ...(data?.decisions ?? []).map((d) => d.one_in ?? 1));
  return (
    <section aria-labelledby="decisions-title">
      <div class="section-head">
        <h2 id="decisions-title">{denied ? "Last denials" : "Last decisions"}</h2>
        <button type="button" onClick={() => setDenied(!denied)}>
          {denied ? "Show all decisions" : "Show denials only"}
        </button>
      </div>
      {error && <ErrorNotice error={error} />}
      {data?.error && <Notice tone="warn">Some nodes did not respond: {data.error}</Notice>}
      {!data && !error && <Loading what="the decisions" />}
      {data && (
        <Table
          name="decisions"
          label={{ by: "decisions-title" }}
          columns={columns}
          rows={data.decisions}
          keyOf={(d) => `${d.time} ${d.node} ${d.rule}`}
          dense
          empty={<p class="muted">{denied ? "The nodes remember no denial of this client." : "The nodes remember no request of this client."}</p>}
        />
      )}
      {oneIn > 1 && <p class="muted">A node with many requests remembers a sample of them: here one request in {count(oneIn)}.</p>}
    </section>
  );
}

const columns: Column<Decision>[] = [
  { name: "Time", full: (d) => d.time, cell: (d) => <span class="nowrap">{stamp(d.time).slice(11) + d.time.slice(19, 23)}</span> },
  {
    name: "Decision",
    cell: (d) => (
      <span class="badges">
        <Badge tone={verdicts[d.verdict][0]}>{verdicts[d.verdict][1]}</Badge>
        {d.degraded && (
          <Badge tone="warn" title="The store was unreachable, and on_failure decided">
            degraded
          </Badge>
        )}
      </span>
    ),
  },
  { name: "Rule", cell: (d) => <a href={"/rules/" + encodeURIComponent(d.rule)}>{d.rule}</a> },
  { name: "Limit", cell: (d) => (d.limit ? <code>{d.limit}</code> : "–") },
  { name: "Remaining", num: true, cell: (d) => (d.degraded || !d.limit ? "–" : count(d.remaining)) },
  { name: "Retry after", num: true, cell: (d) => (d.delay_ms ? `delayed ${span(d.delay_ms)}` : !d.retry_after_ms ? "–" : d.retry_after_ms < 0 ? "never" : span(d.retry_after_ms)) },
  { name: "Node", cell: (d) => d.node },
];
