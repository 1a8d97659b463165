// Clients whose names contain what was looked up, for somebody who knows only a part of a name. Secrets are hashed: they
// have no parts.

import { usePoll } from "../poll.ts";
import type { Session } from "../session.ts";
import { clientName, isSecret, readClients } from "../traffic.ts";
import { TopClients } from "./topclients.tsx";

/** The number of clients shown. */
const most = 10;

export function SimilarClients({ session, client }: { session: Session; client: Record<string, string> }) {
  const { namespace } = session;
  const [[name, q] = ["", ""], ...more] = Object.entries(client);
  const { data } = usePoll(
    async (signal) => (q === "" || isSecret(name) || more.length > 0 ? [] : readClients({ namespace, window: "24h", order: "requests", limit: 3 * most, q, signal })),
    JSON.stringify([namespace, client]),
    10_000,
  );
  const others = (data ?? []).filter((c) => clientName(c.client) !== clientName(client) && !Object.values(c.client).includes(q)).slice(0, most);
  if (others.length === 0) return null;
  return (
    <section aria-labelledby="similar-title">
      <h2 id="similar-title">Other clients whose names contain “{q}”</h2>
      <TopClients clients={others} label={{ by: "similar-title" }} />
    </section>
  );
}
