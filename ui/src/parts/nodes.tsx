// Tables of nodes: how each is, what it hears of others, what it takes ahead.

import { useState } from "preact/hooks";

import type { FleetNode, News } from "../api.ts";
import { heardOf, urgent, type Track } from "../figures.ts";
import { ago, count, rate, short, span, stamp } from "../format.ts";
import { Badge } from "./marks.tsx";

/** More rows than this nobody reads: who looks for one says which. */
const most = 200;

interface Props {
  nodes: FleetNode[];
  track: Track;
  now: number;
  /** It is one node that tells of itself, which needs no list. */
  alone: boolean;
}

export function NodeTables({ nodes, track, now, alone }: Props) {
  const [filter, setFilter] = useState("");
  const words = filter.toLowerCase().split(/\s+/);
  const fits = (n: FleetNode): boolean => words.every((w) => `${n.id} ${n.region ?? ""} ${n.version} ${n.store}`.toLowerCase().includes(w));
  const found = nodes.filter(fits);
  const shown = urgent(found, most, now);
  // What a node said that is gone is no longer so: regions leave it out, too.
  const heard = shown.filter((n) => heardOf(n, now) !== "gone");
  const news = heard.flatMap((node) => (node.fleet?.news ?? []).map((n) => ({ node, news: n })));
  const leased = heard.filter((n) => n.fleet?.leases !== undefined);
  return (
    <>
      {!alone && <section aria-labelledby="nodes-title">
        <div class="section-head">
          <h2 id="nodes-title">Nodes</h2>
          {nodes.length > 5 && (
            <input type="search" data-search class="filter" placeholder="Find a node" aria-label="Find a node" value={filter} onInput={(e) => setFilter(e.currentTarget.value)} />
          )}
        </div>
        <div class="scroll" tabIndex={0} role="region" aria-labelledby="nodes-title">
          <table class="grid dense" data-table="nodes">
            <thead>
              <tr>
                <th scope="col">Node</th>
                <th scope="col">Region</th>
                <th scope="col">Version</th>
                <th scope="col">Rules</th>
                <th scope="col" class="num" title="How long after the last change was made it was in force here">
                  Rules lag
                </th>
                <th scope="col">Store</th>
                <th scope="col" class="num" title="Nodes that it hears of, of those it knows">
                  Hears of
                </th>
                <th scope="col" class="num">
                  Seen
                </th>
              </tr>
            </thead>
            <tbody>
              {shown.map((n) => (
                <NodeRow key={n.id} node={n} now={now} />
              ))}
            </tbody>
          </table>
        </div>
        {found.length === 0 && <p class="muted">No node fits.</p>}
        {found.length > most && (
          <p class="muted">
            Those that need a look, and others up to {most} of {count(found.length)}. Find one by name, region or version.
          </p>
        )}
      </section>}
      {news.length > 0 && (
        <section aria-labelledby="news-title">
          <h2 id="news-title">News between nodes</h2>
          <p class="muted lead">How old it is when it comes, and how many units passed beyond limits before it came. Counted since each node was started.</p>
          <div class="scroll" tabIndex={0} role="region" aria-labelledby="news-title">
            <table class="grid dense" data-table="news">
              <thead>
                <tr>
                  <th scope="col">Node</th>
                  <th scope="col">Mode</th>
                  <th scope="col">News</th>
                  <th scope="col" class="num">
                    Lag
                  </th>
                  <th scope="col" class="num">
                    Most
                  </th>
                  <th scope="col" class="num">
                    Over limits
                  </th>
                  <th scope="col" class="num">
                    Most of one key
                  </th>
                  <th scope="col" class="num" title="Units of other regions that could not be charged">
                    Lost
                  </th>
                  <th scope="col" class="num" title="By how much the fleet's date, by which windows begin, is ahead of the node's">
                    Date
                  </th>
                  <th scope="col" class="num" title="Keys with something to tell, of those remembered">
                    Waiting
                  </th>
                  <th scope="col" class="num">
                    Failed
                  </th>
                  <th scope="col" class="num" title="News that could not be true">
                    Refused
                  </th>
                </tr>
              </thead>
              <tbody>
                {news.map(({ node, news: n }) => (
                  <NewsRow key={`${node.id} ${n.mode}`} node={node} news={n} />
                ))}
              </tbody>
            </table>
          </div>
        </section>
      )}
      {leased.length > 0 && (
        <section aria-labelledby="leases-title">
          <h2 id="leases-title">Leases</h2>
          <div class="scroll" tabIndex={0} role="region" aria-labelledby="leases-title">
            <table class="grid dense" data-table="leases">
              <thead>
                <tr>
                  <th scope="col">Node</th>
                  <th scope="col" class="num">
                    Keys held
                  </th>
                  <th scope="col" class="num">
                    Calls/s
                  </th>
                  <th scope="col" class="num">
                    Failed
                  </th>
                  <th scope="col" class="num">
                    Units given
                  </th>
                  <th scope="col" class="num">
                    Handed back
                  </th>
                  <th scope="col" class="num" title="Neither used nor handed back in time">
                    Expired
                  </th>
                </tr>
              </thead>
              <tbody>
                {leased.map((n) => (
                  <LeaseRow key={n.id} node={n} callsPerSecond={track.callsPerSecond(n.id)} />
                ))}
              </tbody>
            </table>
          </div>
        </section>
      )}
    </>
  );
}

function NodeRow({ node: n, now }: { node: FleetNode; now: number }) {
  const heard = heardOf(n, now);
  return (
    <tr class={heard === "gone" ? "gone" : ""} data-node={n.id}>
      <th scope="row" data-label="Node">
        {n.id}
        {n.error && (
          <span class="row-error" role="note" title={n.error}>
            {short(n.error)}
          </span>
        )}
      </th>
      <td data-label="Region" title={n.region}>{n.region ? short(n.region) : <span class="muted">–</span>}</td>
      <td data-label="Version" title={n.version}>{short(n.version)}</td>
      <td data-label="Rules">
        <span class="badges">
          <span class="num">{count(n.revision)}</span>
          {n.behind && <Badge tone="warn">behind</Badge>}
          {n.from_disk && (
            <Badge tone="warn" title="The rules service was away when it was started">
              from disk
            </Badge>
          )}
          {n.error && <Badge tone="bad">refused</Badge>}
        </span>
      </td>
      <td data-label="Rules lag" class="num">
        {n.lag_ms === 0 ? "–" : span(n.lag_ms)}
      </td>
      <td data-label="Store">{n.store === "ok" ? <Badge tone="good">ok</Badge> : <Badge tone="bad" title={n.store}>{short(n.store)}</Badge>}</td>
      <td data-label="Hears of" class="num">
        {n.fleet && n.fleet.known > 0 ? `${count(n.fleet.live)} of ${count(n.fleet.known)}` : "–"}
      </td>
      <td data-label="Seen" class="num" title={n.seen && stamp(n.seen)}>
        {heard === "now" ? ago(n.seen, now) : <Badge tone={heard === "late" ? "warn" : "bad"}>{ago(n.seen, now)}</Badge>}
      </td>
    </tr>
  );
}

function NewsRow({ node, news: n }: { node: FleetNode; news: News }) {
  const none = n.heard === 0;
  return (
    <tr data-node={node.id} data-mode={n.mode}>
      <th scope="row" data-label="Node">
        {node.id}
      </th>
      <td data-label="Mode">{short(n.mode)}</td>
      <td data-label="News">{n.up ? <Badge tone="good">up</Badge> : <Badge tone="bad">down</Badge>}</td>
      <td data-label="Lag" class="num" data-value={n.lag_ms}>
        {none ? "–" : span(n.lag_ms)}
      </td>
      <td data-label="Most" class="num" data-value={n.lag_max_ms}>
        {none ? "–" : span(n.lag_max_ms)}
      </td>
      <td data-label="Over limits" class="num" data-value={n.over}>
        {count(n.over)}
      </td>
      <td data-label="Most of one key" class="num" data-value={n.over_max}>
        {count(n.over_max)}
      </td>
      <td data-label="Lost" class="num" data-value={n.lost}>
        {n.lost > 0 ? <Badge tone="warn">{count(n.lost)}</Badge> : "0"}
      </td>
      <td data-label="Date" class="num">
        {n.dates_off > 0 ? <Badge tone="warn">{count(n.dates_off)} off</Badge> : Math.abs(n.ahead_ms) < 1 ? "right" : (n.ahead_ms > 0 ? "+" : "") + span(n.ahead_ms)}
      </td>
      <td data-label="Waiting" class="num">
        {count(n.waiting)} of {count(n.keys)}
      </td>
      <td data-label="Failed" class="num">
        {count(n.failed)}
      </td>
      <td data-label="Refused" class="num">
        {n.refused > 0 ? <Badge tone="warn">{count(n.refused)}</Badge> : "0"}
      </td>
    </tr>
  );
}

function LeaseRow({ node, callsPerSecond }: { node: FleetNode; callsPerSecond: number | undefined }) {
  const l = node.fleet?.leases;
  if (!l) return null;
  return (
    <tr data-node={node.id}>
      <th scope="row" data-label="Node">
        {node.id}
      </th>
      <td data-label="Keys held" class="num">
        {count(l.keys)}
      </td>
      <td data-label="Calls/s" class="num">
        {callsPerSecond === undefined ? "–" : rate(callsPerSecond)}
      </td>
      <td data-label="Failed" class="num">
        {count(l.failed)}
      </td>
      <td data-label="Units given" class="num">
        {count(l.granted)}
      </td>
      <td data-label="Handed back" class="num">
        {count(l.returned)}
      </td>
      <td data-label="Expired" class="num">
        {count(l.expired)}
      </td>
    </tr>
  );
}
