// Alerts: conditions that need attention.

import type { ComponentChildren } from "preact";

import type { Alert } from "../api.ts";
import { ago, short, stamp } from "../format.ts";
import { Badge, type Tone } from "./notices.tsx";
import { Table, type Column } from "./table.tsx";

const tones: Record<Alert["severity"], Tone> = { critical: "bad", warning: "warn" };

/** A pending alert has not fired yet, and the condition of a resolving one has ended. */
const states: Record<Alert["state"], ComponentChildren> = {
  pending: <Badge tone="warn">pending</Badge>,
  firing: <Badge tone="bad">firing</Badge>,
  resolving: <Badge tone="plain">resolving</Badge>,
  resolved: <Badge tone="good">resolved</Badge>,
};

interface Props {
  alerts: readonly Alert[];
  /** The namespace that is shown: alerts of others have a note. */
  namespace: string | undefined;
  now: number;
  label: string | { by: string };
  empty: string;
}

export function AlertTable({ alerts, namespace, now, label, empty }: Props) {
  return <Table name="alerts" label={label} columns={columns(now, namespace)} rows={alerts} keyOf={(a) => `${a.namespace} ${a.id} ${a.state}`} empty={<p class="muted">{empty}</p>} />;
}

function columns(now: number, namespace: string | undefined): Column<Alert>[] {
  return [
    {
      name: "Alert",
      cell: (a) => (
        <>
          {nameOf(a.condition)} {a.subject !== "" && !a.rules && <span class="row-note">{short(a.subject)}</span>}
          {a.namespace !== undefined && a.namespace !== namespace && <span class="row-note">namespace {short(a.namespace)}</span>}
        </>
      ),
    },
    {
      name: "State",
      cell: (a) => (
        <span class="badges">
          {states[a.state]}
          {(a.state === "firing" || a.state === "pending") && <Badge tone={tones[a.severity]}>{a.severity}</Badge>}
        </span>
      ),
    },
    { name: "What happens", full: (a) => (a.rules ? `Rules: ${a.rules.join(", ")}` : undefined), cell: (a) => short(a.summary, 240), large: true },
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
