// A table of the most denied or heaviest clients.

import { percent, count } from "../format.ts";
import { clientName, coarse, deniedPercent, total, type ClientTraffic } from "../traffic.ts";
import { openClient } from "../pages/clients.tsx";
import { Pairs } from "./limits.tsx";
import { Badge } from "./notices.tsx";
import { Sparkline } from "./sparkline.tsx";
import { Table, type Column } from "./table.tsx";

interface Props {
  clients: readonly ClientTraffic[];
  label: string | { by: string };
  /** The page is about one rule or one client, which needs no column. */
  of?: "rule" | "client";
  /** The page is about a shadow rule, which denies nothing. */
  shadow?: boolean;
  /** Shown if there are none. */
  empty?: string | undefined;
}

export function TopClients({ clients, label, of, shadow = false, empty = "No requests in this time." }: Props) {
  const list = of === "client" ? ofOneClient : columns.filter((c) => of !== "rule" || c.name !== "Rule").map((c) => (shadow ? { ...c, name: shadowNames[c.name] ?? c.name } : c));
  return (
    <Table
      name={of === "client" ? "client-traffic" : "top-clients"}
      label={label}
      columns={list}
      rows={clients}
      keyOf={(c) => `${c.rule} ${clientName(c.client)}`}
      empty={<p class="muted">{empty}</p>}
    />
  );
}

const shadowNames: Record<string, string> = { Denied: "Would be denied", "Share denied": "Share" };

const columns: Column<ClientTraffic>[] = [
    {
      name: "Client",
      cell: ({ client }) => (Object.keys(client).length === 0 ? <span class="muted">all clients together</span> : <Pairs of={Object.entries(client)} />),
    },
    {
      name: "Rule",
      cell: ({ rule, shadow }) => (
        <>
          <a href={"/rules/" + encodeURIComponent(rule)}>{rule}</a> {shadow && <Badge tone="plain">shadow</Badge>}
        </>
      ),
    },
    { name: "Requests", num: true, value: (c) => c.requests, cell: (c) => count(c.requests), full: (c) => (c.error ? `at least ${count(c.requests - c.error)}` : undefined) },
    { name: "Denied", num: true, value: (c) => c.denied, cell: (c) => count(c.denied) },
    { name: "Share denied", num: true, cell: (c) => percent(deniedPercent(c.requests, c.denied)) },
    {
      name: "Actions",
      cell: ({ client }) =>
        Object.keys(client).length === 0 ? null : (
          <button type="button" aria-label={`Open ${clientName(client)}`} onClick={() => openClient(client)}>
            Open
          </button>
        ),
    },
  ];

/** Without the client and its button, with the requests over time. */
const ofOneClient: Column<ClientTraffic>[] = [
  ...columns.filter((c) => c.name !== "Client" && c.name !== "Actions"),
  {
    name: "Over time",
    cell: ({ series }) => series && <Sparkline values={coarse(series.requests, 60)} over={coarse(series.denied, 60)} label={`${count(total(series.requests))} requests, ${count(total(series.denied))} denied`} />,
  },
];
