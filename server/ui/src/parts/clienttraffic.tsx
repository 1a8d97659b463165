// The clients with the most traffic, with a search.

import { useState } from "preact/hooks";

import { WindowChoice } from "../pages/overview.tsx";
import { usePoll } from "../poll.ts";
import type { Session } from "../session.ts";
import { isUnavailable, readClients, type Order } from "../traffic.ts";
import { Loading, ErrorNotice } from "./notices.tsx";
import { TopClients } from "./topclients.tsx";

interface Props {
  session: Session;
  /** The values of one client that was looked up: its traffic alone is shown. */
  of: readonly string[] | undefined;
}

export function ClientTrafficList({ session, of }: Props) {
  const { namespace } = session;
  const [window, setWindow] = useState("10m");
  const [order, setOrder] = useState<Order>("denied");
  const [text, setText] = useState("");
  const q = of?.find((v) => v !== "") ?? text.trim();
  const { data, error } = usePoll((signal) => readClients({ namespace, window, order, limit: of ? 100 : 50, q, signal }), JSON.stringify([namespace, window, order, q]));
  if (isUnavailable(error)) return null;
  const title = of ? "Traffic of this client" : order === "denied" ? "Most denied clients" : "Heaviest clients";
  return (
    <section aria-labelledby="client-traffic-title">
      <div class="section-head">
        <h2 id="client-traffic-title">{title}</h2>
        {!of && <input type="search" placeholder="Filter by name" aria-label="Filter clients by name" value={text} onInput={(e) => setText(e.currentTarget.value)} />}
        <button type="button" onClick={() => setOrder(order === "denied" ? "requests" : "denied")}>
          {order === "denied" ? "Sort by requests" : "Sort by denied"}
        </button>
        <WindowChoice value={window} onChange={setWindow} />
      </div>
      {error && <ErrorNotice error={error} />}
      {!data && !error && <Loading what="the clients" />}
      {data && <TopClients clients={data} label={{ by: "client-traffic-title" }} />}
    </section>
  );
}
