// The fleet summed by region: sync lag and over-admission.

import type { LeaseSum, ModeSum, RegionSum } from "../figures.ts";
import { count, plural, rate, short, span } from "../format.ts";
import { Badge } from "./notices.tsx";
import { Sparkline } from "./sparkline.tsx";

/** The maximum number of cards. Nodes choose the names of their regions. */
const most = 24;

/** One card per region, without a name if only this node is known. */
export function Regions({ regions, alone }: { regions: RegionSum[]; alone: boolean }) {
  return (
    <>
      <div class="regions">
        {regions.slice(0, most).map((r) => (
          <section class="card region" key={r.region} aria-label={alone ? "Shared limits" : `Region ${nameOf(r.region)}`}>
            <header>
              <h2 title={r.region}>{alone ? "Shared limits" : nameOf(r.region)}</h2>
              {!alone && (
                <span class="muted nodes">
                  {plural(r.nodes, "node")}
                  {r.gone > 0 && `, ${r.gone} silent`}
                </span>
              )}
            </header>
            {r.nodes === 0 && <p class="muted">No node of this region sends heartbeats.</p>}
          {r.nodes > 0 && r.modes.length === 0 && !r.leases && <p class="muted">No leases and no sync: limits are counted in memory, or in a store that is asked for every request.</p>}
            {r.modes.map((m) => (
              <Mode key={m.mode} of={m} />
            ))}
            {r.leases && r.leases.granted + r.leases.failed > 0 && <LeaseLine of={r.leases} />}
          </section>
        ))}
      </div>
      {regions.length > most && (
        <p class="muted">
          The first {most} of {count(regions.length)} regions. All nodes are below.
        </p>
      )}
    </>
  );
}

function nameOf(region: string): string {
  return region === "" ? "No region" : short(region, 60);
}

const meanings: Record<string, string> = {
  async: "Nodes exchange updates through Redis",
  gossip: "Nodes exchange updates directly",
  global: "Regions exchange updates through the global store",
};

function Mode({ of }: { of: ModeSum }) {
  const idle = of.lag === undefined && of.over === 0; // no rule uses it, or no peer has sent an update
  return (
    <div class="mode" data-mode={of.mode}>
      <div class="mode-name">
        <strong>{short(of.mode)}</strong>
        {of.down === 0 ? <Badge tone="good">up</Badge> : <Badge tone="bad">{of.down === of.nodes ? "down" : `${of.down} of ${of.nodes} down`}</Badge>}
        {of.clocksOff > 0 && <Badge tone="warn">{plural(of.clocksOff, "clock")} off</Badge>}
        <span class="muted">
          {meanings[of.mode]}
          {idle && "; no updates yet"}
        </span>
      </div>
      {idle ? null : <Figures of={of} />}
    </div>
  );
}

/** The lag and the over-admission of a mode, now and over the last minutes. */
function Figures({ of }: { of: ModeSum }) {
  const recent = of.points.reduce((sum, p) => sum + p.over, 0);
  const first = of.points[0];
  const last = of.points[of.points.length - 1];
  const minutes = first && last ? Math.max(1, Math.round((last.at - first.at) / 60_000)) : 1;
  return (
    <dl>
      <div>
        <dt>Sync lag</dt>
        <dd>
          <span class="figure">{of.lag === undefined ? "–" : span(of.lag)}</span>
          <span class="muted">max. {of.lag === undefined ? "–" : span(of.lagMax)}</span>
        </dd>
        <dd class="spark-cell">
          <Sparkline values={of.points.map((p) => p.lag)} label={`Sync lag under ${of.mode} over the last minutes`} />
        </dd>
      </div>
      <div>
        <dt>Over-admission</dt>
        <dd>
          <span class="figure">{count(of.over)}</span>
          <span class="muted">
            {of.over === 1 ? "unit" : "units"}, max. of one key {count(of.overMax)}
          </span>
        </dd>
        <dd class="spark-cell">
          <Sparkline bars values={of.points.map((p) => p.over)} label={`${plural(recent, "unit")} above limits under ${of.mode} in the last ${plural(minutes, "minute")}`} />
        </dd>
      </div>
    </dl>
  );
}

function LeaseLine({ of }: { of: LeaseSum }) {
  const unused = of.granted === 0 ? 0 : (100 * of.unused) / of.granted;
  return (
    <p class="lease-line">
      <strong>lease</strong>
      <span>{of.callsPerSecond === undefined ? "–" : rate(of.callsPerSecond)} calls/s</span>
      <span>{plural(of.keys, "key")} held</span>
      <span>
        {count(of.granted)} granted, {rate(unused)} % unused
      </span>
      {of.failed > 0 && <Badge tone="warn">{plural(of.failed, "call")} failed</Badge>}
    </p>
  );
}
