// The clients with the most traffic, with a search.

import { useState } from "preact/hooks";

import { usePoll } from "../poll.ts";
import type { Session } from "../session.ts";
import { isUnavailable, readClients, type Order } from "../traffic.ts";
import { Loading, ErrorNotice } from "./notices.tsx";
import { TopClients } from "./topclients.tsx";
import { WindowChoice } from "./windowchoice.tsx";

export function ClientTrafficList({ session }: { session: Session }) {
  const { namespace } = session;
  const [window, setWindow] = useState("10m");
  const [order, setOrder] = useState<Order>("denied");
  const [text, setText] = useState("");
  const q = text.trim();
  const { data, error } = usePoll((signal) => readClients({ namespace, window, order, limit: 50, q, signal }), JSON.stringify([namespace, window, order, q]));
  if (isUnavailable(error)) return null;
  return (
    <section aria-labelledby="client-traffic-title">
      <div class="section-head">
        <h2 id="client-traffic-title">{order === "denied" ? "Most denied clients" : "Heaviest clients"}</h2>
        <input
          type="search"
          class="wide-search"
          placeholder="Part of a name, or a whole key"
          aria-label="Search clients by a part of a name, or by a whole key"
          title="A key, token or cookie is hashed before it is compared"
          autocomplete="off"
          spellcheck={false}
          value={text}
          onInput={(e) => setText(e.currentTarget.value)}
        />
        <button type="button" onClick={() => setOrder(order === "denied" ? "requests" : "denied")}>
          {order === "denied" ? "Sort by requests" : "Sort by denied"}
        </button>
        <WindowChoice value={window} onChange={setWindow} />
      </div>
      {error && <ErrorNotice error={error} />}
      {!data && !error && <Loading what="the clients" />}
      {data && <TopClients clients={data} label={{ by: "client-traffic-title" }} empty={q === "" ? undefined : "No client with requests in this time matches."} />}
    </section>
  );
}
