// A table of the most denied or heaviest clients.

import { percent, count } from "../format.ts";
import { clientName, deniedPercent, isShortened, type ClientTraffic } from "../traffic.ts";
import { openClient } from "../pages/clients.tsx";
import { Pairs } from "./limits.tsx";
import { Badge } from "./notices.tsx";
import { Table, type Column } from "./table.tsx";

interface Props {
  clients: readonly ClientTraffic[];
  label: string | { by: string };
  /** The page is about one rule, which needs no column. */
  oneRule?: boolean;
}

export function TopClients({ clients, label, oneRule = false }: Props) {
  const list = columns.filter((c) => !oneRule || c.name !== "Rule");
  return (
    <Table
      name="top-clients"
      label={label}
      columns={list}
      rows={clients}
      keyOf={(c) => `${c.rule} ${clientName(c.client)}`}
      empty={<p class="muted">No requests in this time.</p>}
    />
  );
}

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
        Object.keys(client).length === 0 || isShortened(client) ? null : (
          <button type="button" aria-label={`Open ${clientName(client)}`} onClick={() => openClient(client)}>
            Open
          </button>
        ),
    },
  ];
