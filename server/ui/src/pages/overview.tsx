import { useState } from "preact/hooks";

import { call } from "../api.ts";
import { useAttempt } from "../attempt.ts";
import { count, percent, rate } from "../format.ts";
import { useHealth, type State } from "../health.ts";
import { TrafficChart } from "../parts/chart.tsx";
import { Empty, Loading, ErrorNotice } from "../parts/notices.tsx";
import { StopEnforcing } from "../parts/enforcement.tsx";
import { Sparkline } from "../parts/sparkline.tsx";
import { StatusCard } from "../parts/status.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { TopClients } from "../parts/topclients.tsx";
import { WindowChoice } from "../parts/windowchoice.tsx";
import { usePoll } from "../poll.ts";
import { powers, type Session } from "../session.ts";
import { coarse, deniedPercent, denying, isUnavailable, noRule, rateNow, readClients, readTraffic, seconds, total, windows, type RuleSeries, type Series, type Traffic } from "../traffic.ts";

/** The number of rules and clients shown. */
const most = 8;

export function Overview({ session }: { session: Session }) {
  const { namespace } = session;
  const [window, setWindow] = useState("10m");
  const [suspending, setSuspending] = useState(false);
  const state = useHealth();
  const polled = usePoll(
    async (signal) => {
      const [traffic, clients] = await Promise.all([readTraffic({ namespace, window, order: "denied", most: most + 1, signal }), readClients({ namespace, window, order: "denied", limit: 3 * most, signal })]);
      return { traffic, clients };
    },
    JSON.stringify([namespace, window]),
  );
  const { data, error } = polled;
  const day = usePoll((signal) => readTraffic({ namespace, window: "24h", most: 1, signal }), namespace, 30_000);
  return (
    <>
      <div class="page-head">
        <h1 tabIndex={-1}>Overview</h1>
        <span class="head-tools">
          {powers(session).enforcement && (
            <button type="button" onClick={() => setSuspending(true)}>
              Stop enforcing …
            </button>
          )}
          <WindowChoice value={window} onChange={setWindow} />
        </span>
      </div>
      {suspending && <StopEnforcing session={session} onClose={() => setSuspending(false)} />}
      <StatusCard state={state}>
        <DemoSwitch session={session} state={state} />
      </StatusCard>
      {error && !isUnavailable(error) && <ErrorNotice error={error} />}
      {isUnavailable(error) && <Empty title="This node keeps no traffic statistics." />}
      {!data && !error && <Loading what="the traffic" />}
      {data && (
        <>
          <Figures traffic={data.traffic} window={window} day={day.data} unlimited={state?.fallback?.until ? 0 : (state?.fallback?.unlimited_per_second ?? 0)} />
          <section class="card" aria-label="Requests over time">
            <TrafficChart traffic={data.traffic} label={`Requests per second over ${nameOf(window)}`} />
          </section>
          <section aria-labelledby="clients-title">
            <div class="section-head">
              <h2 id="clients-title">Most denied clients</h2>
              <a href="/clients">All clients</a>
            </div>
            <TopClients clients={data.clients.filter((c) => c.denied > 0 && !c.shadow).slice(0, most)} label={{ by: "clients-title" }} />
          </section>
          <section aria-labelledby="rules-title">
            <div class="section-head">
              <h2 id="rules-title">Rules that deny most</h2>
              <a href="/rules">All rules</a>
            </div>
            <Table
              name="top-rules"
              label={{ by: "rules-title" }}
              columns={columns(seconds(data.traffic.step))}
              rows={denying(data.traffic, most)}
              keyOf={(r) => r.rule}
              empty={<p class="muted">No requests in this time.</p>}
            />
            {isCut(data.traffic) && <p class="muted">These are the {most} rules that deny most. Other rules have requests, too.</p>}
          </section>
        </>
      )}
    </>
  );
}

/** Whether more rules have requests than are shown. */
function isCut({ rules, more_rules: more = 0 }: Traffic): boolean {
  return rules.filter((r) => r.rule !== noRule).length + more > most;
}

function nameOf(window: string): string {
  return windows.find(([value]) => value === window)?.[1] ?? window;
}

const figures: readonly [keyof Series, string, string][] = [
  ["requests", "Requests", ""],
  ["denied", "Denied", "bad"],
  ["degraded", "Degraded", "warn"],
  ["shadow_denied", "Would be denied (shadow)", ""],
];

interface FiguresProps {
  traffic: Traffic;
  window: string;
  day: Traffic | undefined;
  /** Requests per second that pass without a limit now: the banner has them some seconds earlier than the traffic. */
  unlimited: number;
}

/** Figures now, in the chosen time and in the last 24 hours. */
function Figures({ traffic, window, day, unlimited }: FiguresProps) {
  const step = seconds(traffic.step);
  const now = (of: keyof Series): number => Math.max(rateNow(traffic.total[of], step), of === "degraded" ? unlimited : 0);
  return (
    <dl class="figures card" data-figures>
      {figures.map(([of, name, tone]) => (
        <div key={of} data-figure={of} class={tone !== "" && now(of) > 0 ? `tone-${tone}` : undefined}>
          <dt>{name}</dt>
          <dd>
            <span class="figure">{rate(now(of))}</span>
            <span class="muted">/s now</span>
            <Sum of={of} traffic={traffic} name={nameOf(window)} />
            {day && window !== "24h" && <Sum of={of} traffic={day} name="24 hours" part={seconds(window) < seconds("24h") ? traffic : undefined} />}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** The sum of a time. A part of that time may have been read later, and is then larger while a node is young. */
function Sum({ of, traffic, name, part }: { of: keyof Series; traffic: Traffic; name: string; part?: Traffic | undefined }) {
  const sumOf = (field: keyof Series): number => Math.max(total(traffic.total[field]), part ? total(part.total[field]) : 0);
  const sum = sumOf(of);
  return (
    <span class="figure-sum muted">
      {count(sum)} in {name}
      {of !== "requests" && sum > 0 && `, ${percent(deniedPercent(sumOf("requests"), sum))}`}
    </span>
  );
}

function columns(step: number): Column<RuleSeries>[] {
  return [
    { name: "Rule", cell: ({ rule }) => <a href={"/rules/" + encodeURIComponent(rule)}>{rule}</a> },
    { name: "Requests", num: true, cell: (r) => count(total(r.requests)) },
    { name: "Denied", num: true, value: (r) => total(r.denied), cell: (r) => count(total(r.denied)) },
    { name: "Share denied", num: true, cell: (r) => percent(deniedPercent(total(r.requests), total(r.denied))) },
    { name: "Would be denied", num: true, means: "By a shadow rule: the requests pass", cell: (r) => count(total(r.shadow_denied)) },
    { name: "Denied now", num: true, cell: (r) => `${rate(rateNow(r.denied, step))}/s` },
    { name: "Over time", cell: (r) => <RuleSpark of={r} /> },
  ];
}

/** A sparkline of the requests of a rule, with those that it denies, or would deny as a shadow rule, in the foreground. */
export function RuleSpark({ of }: { of: RuleSeries }) {
  const shadow = total(of.denied) === 0 && total(of.shadow_denied) > 0;
  const over = shadow ? of.shadow_denied : of.denied;
  return <Sparkline values={coarse(of.requests, 60)} over={coarse(over, 60)} shadow={shadow} label={`${count(total(of.requests))} requests, ${count(total(over))} ${shadow ? "would be denied" : "denied"}`} />;
}

function DemoSwitch({ session, state }: { session: Session; state: State | undefined }) {
  const attempt = useAttempt();
  const [requested, setRequested] = useState<boolean | undefined>();
  const reported = state?.here?.demo_traffic;
  if (reported === undefined) return null;
  const on = requested ?? reported === "on";
  const change = (): void =>
    void attempt.run(async () => {
      setRequested((await call<{ on: boolean }>("/v1/demo-traffic", { method: "PUT", json: { on: !on }, stay: true })).on);
    });
  return (
    <p class="demo-switch">
      <span class="muted">{on ? "Demo traffic is on: generated clients send requests to the built-in service." : "Demo traffic is off."}</span>
      {powers(session).counters && (
        <button type="button" class="small" aria-disabled={attempt.busy} onClick={change}>
          {on ? "Turn off demo traffic" : "Turn on demo traffic"}
        </button>
      )}
      {attempt.error && <span>{attempt.error.message}</span>}
    </p>
  );
}
