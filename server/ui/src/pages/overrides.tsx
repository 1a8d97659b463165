import { useRef, useState } from "preact/hooks";

import { call, Problem, type OverrideItem, type OverridesPage } from "../api.ts";
import { lineDiff } from "../linediff.ts";
import { ago, plural, stamp } from "../format.ts";
import { Confirm } from "../parts/confirm.tsx";
import { Diff } from "../parts/diff.tsx";
import { Pairs } from "../parts/limits.tsx";
import { Badge, Empty, Notice, Loading, ErrorNotice } from "../parts/notices.tsx";
import { Pager, usePages } from "../parts/pager.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { useLoad, useNow } from "../poll.ts";
import { go } from "../route.ts";
import { powers, type Session } from "../session.ts";
import { yaml } from "../yaml.ts";
import { Grant, OverrideForm } from "./override.tsx";

export function Overrides({ session, query }: { session: Session; query: URLSearchParams }) {
  const { namespace } = session;
  const may = powers(session);
  const pages = usePages();
  const now = useNow();
  const title = useRef<HTMLHeadingElement>(null);
  const [changing, setChanging] = useState<OverrideItem | undefined>();
  const [ending, setEnding] = useState<OverrideItem | undefined>();
  const [notice, setNotice] = useState<{ tone: "good" | "warn"; text: string } | undefined>();
  const { data, error, loading, again } = useLoad(
    (signal) => call<OverridesPage>("/v1/overrides", { query: { namespace, cursor: pages.cursor, limit: "50" }, signal }),
    JSON.stringify([namespace, pages.cursor]),
  );
  const making = query.has("new") && may.overrides;
  const leave = (): void => {
    setChanging(undefined);
    if (making) go("/overrides", true);
    title.current?.focus();
  };
  const saved = ({ override, warnings }: OverrideItem): void => {
    leave();
    again();
    setNotice(warnings ? { tone: "warn", text: `It is saved, but ${warnings.join("; ")}.` } : { tone: "good", text: `${nameOf(override.client)} has an override until ${stamp(override.expires)}.` });
  };
  return (
    <>
      <div class="page-head">
        <h1 ref={title} tabIndex={-1}>
          {making ? "New override" : changing ? "Change an override" : "Overrides"}
        </h1>
        {data && !making && !changing && <p class="summary">{plural(data.total, "override")}</p>}
        <p class="muted lead">Other limits for one client, for a time. They take precedence over rules and over the registered client, but not over a block.</p>
      </div>
      {making && <OverrideForm key="new" namespace={namespace} item={undefined} onDone={saved} onCancel={leave} />}
      {changing && !making && <OverrideForm key={changing.override.id} namespace={namespace} item={changing} onDone={saved} onCancel={leave} />}
      {!making && !changing && (
        <>
          {may.overrides && (
            <div class="toolbar">
              <a class="button primary" href="/overrides?new">
                New override
              </a>
            </div>
          )}
          {session.who?.no_overrides && <Notice tone="plain">Overrides are not possible here: {session.who.no_overrides}.</Notice>}
          {notice && <Notice tone={notice.tone}>{notice.text}</Notice>}
          {error && <ErrorNotice error={error} />}
          {!data && !error && <Loading what="the overrides" />}
          {data && (
            <Table
              name="overrides"
              label="Overrides"
              columns={may.overrides ? [...columns(now), actions(setChanging, setEnding)] : columns(now)}
              rows={data.overrides}
              keyOf={({ override }) => override.id}
              busy={loading}
              empty={<Empty title={`There are no overrides in ${namespace}.`} />}
            />
          )}
          {data && <Pager pages={pages} next={data.next} label="Pages" />}
        </>
      )}
      {ending && (
        <EndOverride
          namespace={namespace}
          item={ending}
          onClose={() => setEnding(undefined)}
          onStale={setEnding}
          onDone={() => {
            setEnding(undefined);
            setNotice({ tone: "good", text: `${nameOf(ending.override.client)} has its own limits again.` });
            again();
          }}
        />
      )}
    </>
  );
}

interface Ending {
  namespace: string;
  item: OverrideItem;
  onClose: () => void;
  /** The override has changed to this since it was shown. */
  onStale: (item: OverrideItem) => void;
  onDone: () => void;
}

function EndOverride({ namespace, item, onClose, onStale, onDone }: Ending) {
  const { override, revision } = item;
  const at = "/v1/overrides/" + encodeURIComponent(override.id);
  const end = async (): Promise<void> => {
    try {
      await call(at, { method: "DELETE", query: { namespace }, ifMatch: revision, stay: true });
    } catch (err) {
      if (err instanceof Problem && err.status === 412) onStale(await call<OverrideItem>(at, { query: { namespace }, stay: true }));
      throw err;
    }
  };
  return (
    <Confirm title={`End the override of ${nameOf(override.client)} now?`} yes="End it now" no="Keep it" onYes={end} onDone={onDone} onClose={onClose} goes>
      <p>It would end at {stamp(override.expires)}. This is deleted:</p>
      <Diff text={lineDiff(yaml(override), "")} />
    </Confirm>
  );
}

function nameOf(client: Record<string, string>): string {
  return Object.entries(client)
    .map(([name, value]) => `${name}=${value}`)
    .join(" or ");
}

function columns(now: number): Column<OverrideItem>[] {
  return [
    { name: "Client", cell: ({ override }) => <Pairs of={Object.entries(override.client)} /> },
    { name: "Grants", cell: ({ override }) => <Grant of={override} /> },
    { name: "Rule", cell: ({ override: { rule } }) => (rule ? <a href={"/rules/" + encodeURIComponent(rule)}>{rule}</a> : <span class="muted">every rule</span>) },
    {
      name: "Ends",
      full: ({ override }) => stamp(override.expires),
      cell: ({ override: { expires } }) => (Date.parse(expires) > now ? ago(expires, now) : <Badge tone="plain">expired</Badge>),
    },
    { name: "Reason", cell: ({ override }) => override.note && <span class="wrap">{override.note}</span> },
    {
      name: "Created",
      full: ({ updated }) => stamp(updated),
      cell: ({ updated, by }) => (
        <>
          <span class="nowrap">{ago(updated, now)}</span> <span class="row-note">by {by}</span>
        </>
      ),
    },
  ];
}

function actions(onChange: (item: OverrideItem) => void, onEnd: (item: OverrideItem) => void): Column<OverrideItem> {
  return {
    name: "Actions",
    cell: (item) => (
      <span class="badges">
        <button type="button" aria-label={`Change the override of ${nameOf(item.override.client)}`} onClick={() => onChange(item)}>
          Change
        </button>
        <button type="button" aria-label={`End the override of ${nameOf(item.override.client)}`} onClick={() => onEnd(item)}>
          End …
        </button>
      </span>
    ),
  };
}
