import { useEffect, useState } from "preact/hooks";

import { call, type Json, type Rule, type RuleItem, type RulesPage } from "../api.ts";
import { ago, count, percent, plural, rate, stamp } from "../format.ts";
import { Badge, Empty, Notice, Loading, ErrorNotice } from "../parts/notices.tsx";
import { Pager, usePages } from "../parts/pager.tsx";
import { enter, Table, type Column } from "../parts/table.tsx";
import { useLoad, useNow, usePoll } from "../poll.ts";
import { go } from "../route.ts";
import { powers, type Session } from "../session.ts";
import { deniedPercent, rateNow, readTraffic, seconds, total, type Traffic } from "../traffic.ts";
import { yaml } from "../yaml.ts";
import { NewRule } from "./newrule.tsx";
import { RuleSpark } from "./overview.tsx";

const pageSize = 50;

export function Rules({ session, query }: { session: Session; query: URLSearchParams }) {
  return query.has("new") && powers(session).rules ? <NewRule namespace={session.namespace} /> : <RuleList session={session} query={query} />;
}

function RuleList({ session, query }: { session: Session; query: URLSearchParams }) {
  const { namespace } = session;
  const may = powers(session);
  const asked = query.get("q") ?? "";
  const [text, setText] = useState(asked);
  const pages = usePages();
  const { cursor } = pages;
  const { data, error, loading } = useLoad(
    (signal) => call<RulesPage>("/v1/rules", { query: { namespace, q: asked || undefined, cursor, limit: `${pageSize}` }, signal }),
    JSON.stringify([namespace, asked, cursor]),
  );
  const now = useNow();
  const ids = data?.rules.map(({ rule }) => rule.id) ?? [];
  const polled = usePoll(
    async (signal) => (ids.length === 0 ? undefined : readTraffic({ namespace, window: "10m", rules: ids, signal })),
    JSON.stringify([namespace, ids]),
  );
  const traffic = polled.data ?? (polled.error ? undefined : "loading");

  // Searches after a pause in typing.
  useEffect(() => {
    if (text === asked) return;
    const timer = window.setTimeout(() => {
      pages.first();
      go(text === "" ? "/rules" : "/rules?" + new URLSearchParams({ q: text }).toString(), true);
    }, 200);
    return () => window.clearTimeout(timer);
  }, [text, asked]);

  return (
    <>
      <div class="page-head">
        <h1 tabIndex={-1}>Rules</h1>
        {data && (
          <p class="summary">
            <span>{plural(data.total, "rule")}</span>
            <span>revision {count(data.revision)}</span>
          </p>
        )}
      </div>
      <div class="toolbar">
        <input
          type="search"
          data-search
          placeholder="Find by id or content   /"
          aria-label="Find rules by id or content"
          value={text}
          onInput={(e) => setText(e.currentTarget.value)}
          onKeyDown={(e) => {
            if (e.key === "ArrowDown") enter("rules");
          }}
        />
        {may.rules && (
          <a class="button primary" href="/rules?new">
            New rule
          </a>
        )}
      </div>
      {session.who?.read_only && <Notice tone="plain">Rules cannot be changed here: {session.who.read_only}.</Notice>}
      {error && <ErrorNotice error={error} />}
      {!data && !error && <Loading what="the rules" />}
      {data && (
        <Table
          name="rules"
          label="Rules"
          columns={columns(now, traffic)}
          rows={data.rules}
          keyOf={({ rule }) => rule.id}
          busy={loading}
          empty={
            <Empty title={asked === "" ? `There are no rules in ${namespace}.` : `No rule contains “${asked}”.`}>
              {asked === "" && may.rules && (
                <p>
                  <code>headgate rules apply -f rules.yaml</code> applies the rules of a file.
                </p>
              )}
            </Empty>
          }
        />
      )}
      {data && <Pager pages={pages} next={data.next} label="Pages" />}
    </>
  );
}

/** Traffic of a rule in the last 10 minutes. */
function trafficColumns(traffic: Traffic | "loading" | undefined): Column<RuleItem>[] {
  if (!traffic) return [];
  const loading = traffic === "loading";
  const step = loading ? 1 : seconds(traffic.step);
  const of = ({ rule }: RuleItem) => (loading ? undefined : traffic.rules.find((r) => r.rule === rule.id));
  return [
    {
      name: "Last 10 min",
      cell: (item) => {
        const series = of(item);
        return series ? <RuleSpark of={series} /> : <span class="muted">{loading ? "–" : "no requests"}</span>;
      },
    },
    {
      name: "Requests",
      num: true,
      cell: (item) => {
        const series = of(item);
        return series ? `${rate(rateNow(series.requests, step))}/s` : "–";
      },
    },
    {
      name: "Denied",
      means: "Share of the requests of the last 10 minutes that were denied, or would be denied by a shadow rule",
      num: true,
      cell: (item) => {
        const series = of(item);
        return series ? percent(deniedPercent(total(series.requests), total(series.denied) + total(series.shadow_denied))) : "–";
      },
    },
  ];
}

function columns(now: number, traffic: Traffic | "loading" | undefined): Column<RuleItem>[] {
  return [
    {
      name: "Rule",
      cell: ({ rule }) => (
        <>
          <a href={"/rules/" + encodeURIComponent(rule.id)}>{rule.id}</a>
          {typeof rule["description"] === "string" && <span class="row-note">{rule["description"]}</span>}
        </>
      ),
    },
    { name: "When", cell: ({ rule }) => when(rule) },
    { name: "Counted by", cell: ({ rule }) => keyOf(rule) },
    {
      name: "Limits",
      cell: ({ rule }) => (
        <span class="badges">
          {list(rule["limits"]).map((l) => (
            <code key={l}>{l}</code>
          ))}
          <Flags rule={rule} />
        </span>
      ),
    },
    ...trafficColumns(traffic),
    {
      name: "Changed",
      full: ({ updated }) => stamp(updated),
      cell: ({ updated, by }) => (
        <>
          <span class="nowrap">{ago(updated, now)}</span> <span class="row-note">by {by}</span>
        </>
      ),
    },
  ];
}

export function Flags({ rule }: { rule: Rule }) {
  const text = (name: string): string => (typeof rule[name] === "string" ? rule[name] : "");
  return (
    <>
      {rule["enabled"] === false && <Badge tone="warn">off</Badge>}
      {rule["block"] === true && <Badge tone="bad">block</Badge>}
      {rule["unlimited"] === true && <Badge tone="plain">unlimited</Badge>}
      {text("consistency") !== "" && <Badge tone="plain">{text("consistency")}</Badge>}
      {text("scope") !== "" && <Badge tone="plain">{text("scope")}</Badge>}
      {text("on_limit") !== "" && text("on_limit") !== "reject" && <Badge tone="plain">{text("on_limit")}</Badge>}
    </>
  );
}

function when(rule: Rule) {
  const of = rule["when"];
  if (of === undefined || of === null) return <span class="muted">always</span>;
  return <code class="wrap">{yaml({ when: of }).slice("when:".length).trim().replace(/^\{(.*)\}$/s, "$1")}</code>;
}

function keyOf(rule: Rule) {
  const parts = list(rule["key"]);
  return parts.length === 0 ? <span class="muted">all clients together</span> : parts.join(" + ");
}

/** The texts of a list or a single value. A limit may be a map with a name. */
function list(value: Json | undefined): string[] {
  if (value === undefined || value === null) return [];
  return (Array.isArray(value) ? value : [value]).map((v) => {
    if (typeof v === "string") return v;
    if (v !== null && typeof v === "object" && !Array.isArray(v) && typeof v["limit"] === "string" && typeof v["name"] === "string") return `${v["name"]}: ${v["limit"]}`;
    return yaml({ x: v }).slice(2).trim();
  });
}
