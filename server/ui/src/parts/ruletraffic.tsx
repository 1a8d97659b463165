// The traffic of one rule: its chart and its clients.

import { useState } from "preact/hooks";

import { count, percent, rate } from "../format.ts";
import { usePoll } from "../poll.ts";
import type { Session } from "../session.ts";
import { deniedPercent, isUnavailable, rateNow, readClients, readTraffic, seconds, total, type Order } from "../traffic.ts";
import { TrafficChart } from "./chart.tsx";
import { Loading, ErrorNotice } from "./notices.tsx";
import { TopClients } from "./topclients.tsx";
import { WindowChoice } from "./windowchoice.tsx";

export function RuleTraffic({ session, id, shadow }: { session: Session; id: string; shadow: boolean }) {
  const { namespace } = session;
  const [window, setWindow] = useState("10m");
  const [order, setOrder] = useState<Order>("denied");
  const { data, error } = usePoll(
    async (signal) => {
      const [traffic, clients] = await Promise.all([readTraffic({ namespace, window, rule: id, signal }), readClients({ namespace, window, rule: id, order, limit: 10, signal })]);
      return { traffic, clients };
    },
    JSON.stringify([namespace, id, window, order]),
  );
  if (isUnavailable(error)) return null;
  const sums = data && { requests: total(data.traffic.total.requests), denied: total(shadow ? data.traffic.total.shadow_denied : data.traffic.total.denied) };
  return (
    <>
      <section aria-labelledby="traffic-title">
        <div class="section-head">
          <h2 id="traffic-title">Traffic</h2>
          {data && sums && (
            <span class="muted">
              {rate(rateNow(data.traffic.total.requests, seconds(data.traffic.step)))} requests/s now, {count(sums.denied)} of {count(sums.requests)} {shadow ? "would be denied" : "denied"} (
              {percent(deniedPercent(sums.requests, sums.denied))})
            </span>
          )}
          <WindowChoice value={window} onChange={setWindow} />
        </div>
        {error && <ErrorNotice error={error} />}
        {!data && !error && <Loading what="the traffic" />}
        {data && (
          <div class="card">
            <TrafficChart traffic={data.traffic} label={`Requests per second under ${id}`} />
          </div>
        )}
      </section>
      {data && (
        <section aria-labelledby="rule-clients-title">
          <div class="section-head">
            <h2 id="rule-clients-title">{order === "requests" ? "Heaviest clients" : shadow ? "Clients that would be denied most" : "Most denied clients"}</h2>
            <button type="button" onClick={() => setOrder(order === "denied" ? "requests" : "denied")}>
              {order === "denied" ? "Show the heaviest" : shadow ? "Show those that would be denied" : "Show the most denied"}
            </button>
          </div>
          <TopClients clients={data.clients} label={{ by: "rule-clients-title" }} of="rule" shadow={shadow} />
        </section>
      )}
    </>
  );
}
