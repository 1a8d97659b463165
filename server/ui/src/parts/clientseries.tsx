// The requests of one client over time, under each rule.

import { useState } from "preact/hooks";

import { clock } from "../api.ts";
import { usePoll } from "../poll.ts";
import type { Session } from "../session.ts";
import { clientName, isUnavailable, readClients, trafficOf } from "../traffic.ts";
import { TrafficChart } from "./chart.tsx";
import { Loading, ErrorNotice } from "./notices.tsx";
import { TopClients } from "./topclients.tsx";
import { WindowChoice } from "./windowchoice.tsx";

export function ClientSeries({ session, client }: { session: Session; client: Record<string, string> }) {
  const { namespace } = session;
  const [window, setWindow] = useState("1h");
  const [chosen, setChosen] = useState("");
  const { data, error } = usePoll(
    (signal) => readClients({ namespace, window, order: "requests", limit: 100, client, series: true, signal }),
    JSON.stringify([namespace, window, client]),
  );
  if (isUnavailable(error)) return null;
  const rules = [...new Set((data ?? []).map((c) => c.rule))];
  const shown = data?.find((c) => c.rule === chosen) ?? data?.find((c) => !c.shadow) ?? data?.[0];
  const traffic = shown && trafficOf(shown, clock());
  return (
    <section aria-labelledby="series-title">
      <div class="section-head">
        <h2 id="series-title">Requests</h2>
        {rules.length > 1 && (
          <p class="fresh">
            <label for="series-rule">Rule</label>
            <select id="series-rule" value={shown?.rule ?? ""} onChange={(e) => setChosen(e.currentTarget.value)}>
              {rules.map((rule) => (
                <option key={rule}>{rule}</option>
              ))}
            </select>
          </p>
        )}
        <WindowChoice value={window} onChange={setWindow} />
      </div>
      {error && <ErrorNotice error={error} />}
      {!data && !error && <Loading what="the requests" />}
      {traffic && (
        <div class="card" data-series>
          <TrafficChart traffic={traffic} label={`Requests per second of ${clientName(shown.client)} under ${shown.rule}`} />
        </div>
      )}
      {data && <TopClients clients={data} label={{ by: "series-title" }} of="client" />}
    </section>
  );
}
