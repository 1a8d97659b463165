import { useState } from "preact/hooks";

import { call, clock, type FleetNode, type Nodes } from "../api.ts";
import { problemsOf } from "../facts.ts";
import { Track, type RegionSum } from "../figures.ts";
import { count, plural, span } from "../format.ts";
import { latestNodes, useHealth } from "../health.ts";
import { StopEnforcing } from "../parts/enforcement.tsx";
import { Legend } from "../parts/legend.tsx";
import { asNode, ThisNodePanel, readThisNode, type Here } from "../parts/thisnode.tsx";
import { Badge, Empty, Notice, Loading } from "../parts/notices.tsx";
import { NodeTables } from "../parts/nodes.tsx";
import { Regions } from "../parts/regions.tsx";
import { useNow, usePoll, type Polled } from "../poll.ts";
import type { Session } from "../session.ts";

interface FleetData {
  nodes: FleetNode[];
  revision: number;
  regions: RegionSum[];
  here: Here | undefined;
}

/** The figures are kept while other pages are open, until the namespace changes. */
let track = new Track();
let tracked = "";

function trackOf(key: string): Track {
  if (tracked !== key) {
    tracked = key;
    track = new Track();
  }
  return track;
}

export function Fleet({ session }: { session: Session }) {
  const { who, namespace } = session;
  const key = who ? `${who.id}/${namespace}` : "here";
  const mine = trackOf(key);
  const read = async (signal: AbortSignal): Promise<FleetData> => {
    // The state of this node must be visible without the rules service, and the reverse.
    const here = readThisNode(signal);
    if (!who) {
      const seen = await here;
      const nodes = [asNode(seen)];
      return { nodes, revision: seen.status.rules.revision, regions: mine.update(nodes, clock()), here: seen };
    }
    const [seen, fleet] = await Promise.allSettled([here, call<Nodes>("/v1/nodes", { query: { namespace }, signal })]);
    if (fleet.status === "rejected") throw fleet.reason;
    const nodes = fleet.value.nodes.sort((a, b) => order(a.region ?? "", b.region ?? "") || order(a.id, b.id));
    return { nodes, revision: fleet.value.revision, regions: mine.update(nodes, clock()), here: seen.status === "fulfilled" ? seen.value : undefined };
  };
  const polled = usePoll(read, key);
  const state = useHealth();
  const [suspending, setSuspending] = useState(false);
  const now = useNow();
  const data = polled.data;
  return (
    <>
      <div class="page-head">
        <h1 tabIndex={-1}>{who ? "Fleet" : "This node"}</h1>
        {data && <Summary data={data} whole={who !== undefined} />}
        <Freshness polled={polled} now={now} />
        {session.service === "none" && (
          <span class="head-tools">
            <button type="button" onClick={() => setSuspending(true)}>
              Stop enforcing on this node …
            </button>
          </span>
        )}
      </div>
      {suspending && <StopEnforcing session={session} onClose={() => setSuspending(false)} />}
      {polled.error && (
        <Notice tone="bad">
          {/* Screen readers announce each change, so the age, which changes each second, is above. */}
          {polled.error.message} {polled.at > 0 && "The figures below are older. "}Headgate tries again every few seconds.
        </Notice>
      )}
      {!who && <Invitation session={session} source={data?.here?.status.rules.source} />}
      {!data && !polled.error && <Loading what="the nodes" />}
      {data && (
        <>
          {data.nodes.length === 0 ? (
            <Empty title={`No node has the rules of ${namespace} in force.`}>
              <p>
                Start one with <code>headgate serve --control URL --token-file FILE --namespace {namespace}</code>. It appears here after its first heartbeat.
              </p>
            </Empty>
          ) : (
            <Regions regions={data.regions} alone={!who} />
          )}
          {data.here && !who && <ThisNodePanel here={data.here} alone />}
          {data.nodes.length > 0 && <NodeTables nodes={latestNodes(data.nodes, state?.nodes)} track={mine} now={now} alone={!who} />}
          {data.here && who && <ThisNodePanel here={data.here} alone={false} />}
          {data.nodes.length > 0 && <Legend />}
        </>
      )}
    </>
  );
}

function order(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function Summary({ data, whole }: { data: FleetData; whole: boolean }) {
  const state = useHealth();
  const problems = state ? problemsOf(state) : [];
  return (
    <p class="summary" aria-live="off">
      {whole && <span>{plural(data.nodes.length, "node")}</span>}
      <span>rules at revision {count(data.revision)}</span>
      {state && problems.length === 0 && <Badge tone="good">no problems</Badge>}
      {problems.map((f) => (
        <Badge key={f.text} tone={f.tone}>
          {f.text}
        </Badge>
      ))}
    </p>
  );
}

function Freshness({ polled, now }: { polled: Polled<unknown>; now: number }) {
  if (polled.at === 0) return null;
  const age = Math.max(0, now - polled.at);
  return (
    <p class={polled.error ? "fresh stale" : "fresh"}>
      <span class="dot" aria-hidden="true" />
      {polled.error ? `not updated for ${span(age)}` : "updated every 2 s"}
    </p>
  );
}

function Invitation({ session, source }: { session: Session; source: string | undefined }) {
  if (session.service === "none") {
    const elsewhere = source !== undefined && /^https?:\/\//.test(source) ? source : undefined;
    return (
      <Notice tone="plain">
        This node takes its rules from another rules service and shows only itself.
        {elsewhere && (
          <>
            {" "}
            The whole fleet and its rules are at{" "}
            <a href={elsewhere} target="_blank" rel="noreferrer">
              {elsewhere}
            </a>
            .
          </>
        )}
      </Notice>
    );
  }
  return (
    <Notice tone="plain">
      {session.service === "unavailable" ? "The database of the rules service is unreachable. " : ""}
      <a href="/signin">Sign in</a> to see all nodes, rules and clients.
    </Notice>
  );
}
