// From shadow to enforced: what a shadow rule would have denied.

import { count, percent, plural } from "../format.ts";
import { useLoad } from "../poll.ts";
import type { Session } from "../session.ts";
import { clientName, deniedPercent, readClients, readTraffic, total } from "../traffic.ts";

/** The number of clients that are named. */
const mostClients = 100;

/** Says how many requests and clients of the last 24 hours the shadow rule would have denied. */
export function ShadowEffect({ session, id }: { session: Session; id: string }) {
  const { namespace } = session;
  const { data } = useLoad(
    async (signal) => {
      const query = { namespace, window: "24h", rule: id, signal };
      const [traffic, clients] = await Promise.all([readTraffic(query), readClients({ ...query, order: "denied", limit: mostClients })]);
      return { traffic, denied: clients.filter((c) => c.denied > 0) };
    },
    JSON.stringify([namespace, id]),
  );
  if (!data) return null; // without statistics, nothing is known
  const requests = total(data.traffic.total.requests);
  const denied = total(data.traffic.total.shadow_denied);
  if (requests === 0) return <p data-shadow-effect>It had no requests in the last 24 hours.</p>;
  if (denied === 0) return <p data-shadow-effect>It would have denied none of its {count(requests)} requests of the last 24 hours.</p>;
  const clients = data.denied.length;
  return (
    <p data-shadow-effect>
      In the last 24 hours it would have denied{" "}
      <strong>
        {count(denied)} of {count(requests)} requests ({percent(deniedPercent(requests, denied))})
      </strong>
      {clients > 0 && (
        <>
          , of {clients === mostClients ? "at least " : ""}
          {plural(clients, "client")}: {data.denied.slice(0, 3).map((c) => clientName(c.client)).join(", ")}
          {clients > 3 && ` and ${count(clients - 3)} more`}
        </>
      )}
      .
    </p>
  );
}
