// Alerts: conditions that need attention.

import type { Alert } from "../api.ts";
import { ago, short, stamp } from "../format.ts";
import { Badge, type Tone } from "./notices.tsx";
import { Table, type Column } from "./table.tsx";

const tones: Record<Alert["severity"], Tone> = { critical: "bad", warning: "warn" };

interface Props {
  alerts: readonly Alert[];
  now: number;
  label: string | { by: string };
  empty: string;
}

export function AlertTable({ alerts, now, label, empty }: Props) {
  return <Table name="alerts" label={label} columns={columns(now)} rows={alerts} keyOf={(a) => a.id} empty={<p class="muted">{empty}</p>} />;
}

function columns(now: number): Column<Alert>[] {
  return [
    {
      name: "Alert",
      cell: (a) => (
        <>
          {nameOf(a.condition)} {a.subject !== "" && <span class="row-note">{short(a.subject)}</span>}
        </>
      ),
    },
    { name: "Severity", cell: (a) => (a.state === "firing" ? <Badge tone={tones[a.severity]}>{a.severity}</Badge> : <Badge tone="good">resolved</Badge>) },
    { name: "What happens", cell: (a) => short(a.summary, 240), large: true },
    { name: "Nodes", cell: (a) => (a.nodes && a.nodes.length > 0 ? short(a.nodes.join(", ")) : "–") },
    { name: "Since", num: true, full: (a) => stamp(a.since), cell: (a) => ago(a.since, now) },
    { name: "Resolved", num: true, full: (a) => a.resolved && stamp(a.resolved), cell: (a) => (a.resolved ? ago(a.resolved, now) : "–") },
    {
      name: "Runbook",
      cell: (a) => (
        <a href={runbookOf(a.runbook)} target="_blank" rel="noreferrer">
          What to do
        </a>
      ),
    },
  ];
}

/** The name of a condition in words: failing_open is Failing open. */
export function nameOf(condition: string): string {
  const words = condition.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** The page of the documentation that this node serves, for a runbook such as docs/runbooks/failing-open.md or a URL of it. */
export function runbookOf(runbook: string): string {
  const page = /runbooks\/([a-z-]+)(\.md|\.html)?$/.exec(runbook)?.[1];
  return page === undefined ? "/docs/runbooks/" : `/docs/runbooks/${page}.html`;
}
