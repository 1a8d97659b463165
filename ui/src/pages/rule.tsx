import { useState } from "preact/hooks";

import { call, Problem, type Revision, type RevisionsPage, type RuleItem } from "../api.ts";
import { ago, count, plural, stamp } from "../format.ts";
import { Diff } from "../parts/diff.tsx";
import { Badge, Notice, Waiting, Wrong } from "../parts/marks.tsx";
import { useLoad, useNow } from "../poll.ts";
import type { Session } from "../session.ts";
import { yaml } from "../yaml.ts";
import { Editor } from "./editor.tsx";
import { Flags } from "./rules.tsx";

export function RulePage({ session, id }: { session: Session; id: string }) {
  const { namespace, who } = session;
  const now = useNow();
  const [editing, setEditing] = useState(false);
  const at = "/v1/rules/" + encodeURIComponent(id);
  const rule = useLoad((signal) => call<RuleItem>(at, { query: { namespace }, signal }), JSON.stringify([namespace, id]));
  const item = rule.data?.rule.id === id ? rule.data : undefined;
  return (
    <>
      <p class="crumbs">
        <a href="/rules">Rules</a>
      </p>
      <div class="page-head">
        <h1 tabIndex={-1}>{id}</h1>
        {item && (
          <p class="summary">
            <Flags rule={item.rule} />
            <span title={stamp(item.updated)}>
              revision {count(item.revision)}, {ago(item.updated, now)} by {item.by}
            </span>
          </p>
        )}
      </div>
      {rule.error && (rule.error instanceof Problem && rule.error.status === 404 ? <Notice tone="warn">{rule.error.message} Its history is below, if it has one.</Notice> : <Wrong error={rule.error} />)}
      {!item && !rule.error && <Waiting what="the rule" />}
      {item && !editing && (
        <section aria-label="The rule as in a rules file">
          <pre class="text" tabIndex={0}>
            {yaml(item.rule)}
          </pre>
          <p class="row">
            <a class="button" href={"/explain?" + new URLSearchParams({ rule: id }).toString()}>
              Try a request
            </a>
            {who?.role !== "viewer" && (
              <button type="button" onClick={() => setEditing(true)}>
                Edit
              </button>
            )}
          </p>
        </section>
      )}
      {item && editing && (
        <Editor
          namespace={namespace}
          item={item}
          onDone={() => {
            setEditing(false);
            rule.again();
          }}
        />
      )}
      <History key={`${namespace} ${id} ${item?.revision}`} namespace={namespace} id={id} />
    </>
  );
}

function History({ namespace, id }: { namespace: string; id: string }) {
  const [cursors, setCursors] = useState<string[]>([]);
  const cursor = cursors[cursors.length - 1];
  const { data, error } = useLoad((signal) => call<RevisionsPage>("/v1/revisions", { query: { namespace, kind: "rule", id, cursor, limit: "10" }, signal }), `${cursor}`);
  return (
    <section aria-labelledby="history-title">
      <h2 id="history-title">History</h2>
      {error && <Wrong error={error} />}
      {!data && !error && <Waiting what="the history" />}
      {data && data.revisions.length === 0 && <p class="muted">Nothing is known of it.</p>}
      {data && (
        <ol class="history">
          {data.revisions.map((r, i) => (
            <Change key={r.revision} of={r} namespace={namespace} id={id} open={i === 0 && cursors.length === 0} />
          ))}
        </ol>
      )}
      {data && (cursors.length > 0 || data.next !== undefined) && (
        <nav class="pager" aria-label="Pages of the history">
          <button type="button" disabled={cursors.length === 0} onClick={() => setCursors(cursors.slice(0, -1))}>
            Later
          </button>
          <button type="button" disabled={data.next === undefined} onClick={() => data.next !== undefined && setCursors([...cursors, data.next])}>
            Earlier
          </button>
        </nav>
      )}
    </section>
  );
}

const words: Record<string, string> = { create: "made", update: "changed", delete: "deleted" };

/** One change. Its difference is asked for when it is opened. */
function Change({ of, namespace, id, open }: { of: Revision; namespace: string; id: string; open: boolean }) {
  const [opened, setOpened] = useState(open);
  const what = of.changes?.find((c) => c.kind === "rule" && c.id === id);
  return (
    <li>
      <details open={open} onToggle={(e) => setOpened(e.currentTarget.open)}>
        <summary>
          <span class="num revision">{count(of.revision)}</span>
          {what && <Badge tone={what.action === "delete" ? "bad" : what.action === "create" ? "good" : "plain"}>{words[what.action] ?? what.action}</Badge>}
          <span class="num">{stamp(of.time)}</span>
          <span>by {of.actor}</span>
          {of.count > 1 && <span class="muted">with {plural(of.count - 1, "other")}</span>}
          {of.note && <span class="note">“{of.note}”</span>}
        </summary>
        {opened && <ChangeDiff revision={of.revision} namespace={namespace} id={id} />}
      </details>
    </li>
  );
}

function ChangeDiff({ revision, namespace, id }: { revision: number; namespace: string; id: string }) {
  const { data, error } = useLoad((signal) => call<Revision>(`/v1/revisions/${revision}`, { query: { namespace }, signal }), `${revision}`);
  if (error) return <Wrong error={error} />;
  if (!data) return <Waiting what="what changed" />;
  const change = data.diff?.find((d) => d.kind === "rule" && d.id === id);
  return change?.text ? <Diff text={change.text} /> : <p class="muted">How it changed is not kept any more.</p>;
}
