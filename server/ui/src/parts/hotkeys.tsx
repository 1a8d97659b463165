// The keys of the store with the most requests.

import { count, percent, rate } from "../format.ts";
import { openClient } from "../pages/clients.tsx";
import { usePoll } from "../poll.ts";
import type { Session } from "../session.ts";
import { clientName, deniedPercent, isUnavailable, readClients, readTraffic, total, type ClientTraffic } from "../traffic.ts";
import { Pairs } from "./limits.tsx";
import { ErrorNotice } from "./notices.tsx";
import { Table, type Column } from "./table.tsx";

/** The number of keys shown. */
const most = 8;

/** Five minutes: long enough for a rate that does not jump, short enough to see what is hot now. */
const window = "5m";
const windowSeconds = 300;

export function HotKeys({ session }: { session: Session }) {
  const { namespace } = session;
  const { data, error } = usePoll(
    async (signal) => {
      const [clients, traffic] = await Promise.all([
        readClients({ namespace, window, order: "requests", limit: most, signal }),
        readTraffic({ namespace, window, most: 1, signal }),
      ]);
      return { clients, requests: total(traffic.total.requests) };
    },
    namespace,
    5_000,
  );
  if (isUnavailable(error)) return null;
  return (
    <section aria-labelledby="hot-keys-title">
      <h2 id="hot-keys-title">Hot keys</h2>
      <p class="muted lead">
        The counters with the most requests of the last 5 minutes. Each is on one server: if one is too much for it, give its rule <code>consistency: lease</code> or <code>split</code>.
      </p>
      {error && <ErrorNotice error={error} />}
      {data && <Table name="hot-keys" label={{ by: "hot-keys-title" }} columns={columns(data.requests)} rows={data.clients} keyOf={(c) => `${c.rule} ${clientName(c.client)}`} empty={<p class="muted">No requests in this time.</p>} />}
    </section>
  );
}

function columns(requests: number): Column<ClientTraffic>[] {
  return [
    {
      name: "Key",
      means: "The hash of the rule and its client, and the client as the setting traffic.clients shows it",
      cell: ({ client, hash }) => (
        <>
          <code>{hash ?? "–"}</code>
          <span class="row-note">{Object.keys(client).length === 0 ? "all clients together" : <Pairs of={Object.entries(client)} />}</span>
        </>
      ),
    },
    { name: "Rule", cell: ({ rule }) => <a href={"/rules/" + encodeURIComponent(rule)}>{rule}</a> },
    { name: "Requests", num: true, full: (c) => count(c.requests), cell: (c) => `${rate(c.requests / windowSeconds)}/s` },
    { name: "Share of all requests", num: true, cell: (c) => percent(deniedPercent(requests, Math.min(requests, c.requests))) },
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
}
