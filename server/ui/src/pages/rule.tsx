import { useRef, useState } from "preact/hooks";

import { call, Problem, type Revision, type RevisionsPage, type Rule, type RuleItem } from "../api.ts";
import { lineDiff } from "../linediff.ts";
import { ago, count, plural, stamp } from "../format.ts";
import { Confirm } from "../parts/confirm.tsx";
import { Diff } from "../parts/diff.tsx";
import { StopEnforcing } from "../parts/enforcement.tsx";
import { NoteField } from "../parts/form.tsx";
import { ActionBadge, Notice, Loading, ErrorNotice } from "../parts/notices.tsx";
import { Pager, usePages } from "../parts/pager.tsx";
import { ChangeRule, enforced, isShadow } from "../parts/rulechange.tsx";
import { ShadowEffect } from "../parts/promotion.tsx";
import { RuleTraffic } from "../parts/ruletraffic.tsx";
import { WhatIfPanel } from "../parts/whatif.tsx";
import { useLoad, useNow } from "../poll.ts";
import { powers, type Session } from "../session.ts";
import { yaml } from "../yaml.ts";
import { Editor } from "./editor.tsx";
import { Flags } from "./rules.tsx";

export function RulePage({ session, id }: { session: Session; id: string }) {
  const { namespace } = session;
  const may = powers(session);
  const now = useNow();
  const [editing, setEditing] = useState(false);
  const [deleting, setDeleting] = useState(false);
  const [enforcing, setEnforcing] = useState(false);
  const [suspending, setSuspending] = useState(false);
  const title = useRef<HTMLHeadingElement>(null);
  const at = "/v1/rules/" + encodeURIComponent(id);
  const rule = useLoad((signal) => call<RuleItem>(at, { query: { namespace }, signal }), JSON.stringify([namespace, id]));
  const gone = rule.error instanceof Problem && rule.error.status === 404 ? rule.error : undefined;
  const item = rule.data?.rule.id === id && !gone ? rule.data : undefined;
  return (
    <>
      <p class="crumbs">
        <a href="/rules">Rules</a>
      </p>
      <div class="page-head">
        <h1 ref={title} tabIndex={-1}>
          {id}
        </h1>
        {item && (
          <p class="summary">
            <Flags rule={item.rule} />
            <span title={stamp(item.updated)}>
              revision {count(item.revision)}, {ago(item.updated, now)} by {item.by}
            </span>
          </p>
        )}
        {item && !editing && (
          <span class="head-tools">
            <a class="button" href={"/explain?" + new URLSearchParams({ rule: id }).toString()}>
              Explain a request
            </a>
            {may.enforcement && !isShadow(item.rule) && (
              <button type="button" onClick={() => setSuspending(true)}>
                Stop enforcing …
              </button>
            )}
            {may.rules && (
              <>
                <button type="button" onClick={() => setDeleting(true)}>
                  Delete …
                </button>
                <button type="button" onClick={() => setEditing(true)}>
                  Edit
                </button>
              </>
            )}
          </span>
        )}
      </div>
      {gone && <Notice tone="warn">{gone.message} Its history is below, if it has any.</Notice>}
      {rule.error && !gone && <ErrorNotice error={rule.error} />}
      {!item && !rule.error && <Loading what="the rule" />}
      {item && !editing && isShadow(item.rule) && (
        <Notice tone="plain">
          <div class="row promotion">
            <div>
              <p>This is a shadow rule: requests over its limits are counted and admitted.</p>
              <ShadowEffect session={session} id={id} />
            </div>
            {may.rules && (
              <button type="button" class="primary" onClick={() => setEnforcing(true)}>
                Enforce it …
              </button>
            )}
          </div>
        </Notice>
      )}
      {item && !editing && <RuleTraffic key={`${namespace} ${id}`} session={session} id={id} shadow={isShadow(item.rule)} />}
      {item && enforcing && (
        <ChangeRule
          namespace={namespace}
          item={item}
          next={enforced(item.rule)}
          title={`Enforce the rule ${id}?`}
          yes={`Enforce ${id}`}
          says={
            <>
              <p>Requests over its limits are then denied, on every node within a second.</p>
              <ShadowEffect session={session} id={id} />
            </>
          }
          note="enforce a shadow rule"
          onClose={() => setEnforcing(false)}
          onDone={() => {
            setEnforcing(false);
            rule.again();
          }}
        />
      )}
      {item && !editing && (
        <section aria-labelledby="limits-title">
          <h2 id="limits-title">Limits</h2>
          <pre class="text" tabIndex={0}>
            {yaml(item.rule)}
          </pre>
        </section>
      )}
      {item && !editing && hasLimits(item.rule) && (
        <WhatIfPanel
          key={`whatif ${item.revision}`}
          session={session}
          item={item}
          onChanged={() => {
            rule.again();
            title.current?.focus();
          }}
        />
      )}
      {item && editing && (
        <Editor
          namespace={namespace}
          item={item}
          onDone={() => {
            setEditing(false);
            rule.again();
            title.current?.focus();
          }}
          onCancel={() => {
            setEditing(false);
            title.current?.focus();
          }}
        />
      )}
      {item && suspending && <StopEnforcing session={session} rule={id} onClose={() => setSuspending(false)} />}
      {item && deleting && (
        <DeleteRule
          namespace={namespace}
          item={item}
          onStale={rule.again}
          onClose={() => setDeleting(false)}
          onDone={() => {
            setDeleting(false);
            rule.again();
          }}
        />
      )}
      <History
        key={`${namespace} ${id} ${item?.revision} ${gone !== undefined}`}
        namespace={namespace}
        id={id}
        item={may.rules ? item : undefined}
        onRestored={() => {
          rule.again();
          title.current?.focus();
        }}
      />
    </>
  );
}

/** Reports whether the rule has limits that are texts, which a what-if can change. */
function hasLimits(rule: Rule): boolean {
  const limits = rule["limits"];
  return typeof limits === "string" || (Array.isArray(limits) && limits.length > 0 && limits.every((l) => typeof l === "string"));
}

interface Deleting {
  namespace: string;
  item: RuleItem;
  /** The rule has changed since it was shown. */
  onStale: () => void;
  onClose: () => void;
  onDone: () => void;
}

function DeleteRule({ namespace, item, onStale, onClose, onDone }: Deleting) {
  const [note, setNote] = useState("");
  const { id } = item.rule;
  const remove = async (): Promise<void> => {
    try {
      await call("/v1/rules/" + encodeURIComponent(id), { method: "DELETE", query: { namespace, note: note || undefined }, ifMatch: item.revision, stay: true });
    } catch (err) {
      if (err instanceof Problem && err.status === 412) onStale(); // the text below becomes what is there
      throw err;
    }
  };
  return (
    <Confirm title={`Delete the rule ${id}?`} yes={`Delete ${id}`} no="Keep it" onYes={remove} onDone={onDone} onClose={onClose} goes>
      <p>Every node of the namespace {namespace} then stops applying it, within a second. Its history is kept.</p>
      <Diff text={lineDiff(yaml(item.rule), "")} />
      <NoteField id="delete-note" note={note} onChange={setNote} />
    </Confirm>
  );
}

interface Past {
  namespace: string;
  id: string;
  /** The rule in force, if the user may change it. */
  item: RuleItem | undefined;
  onRestored: () => void;
}

function History({ namespace, id, item, onRestored }: Past) {
  const pages = usePages();
  const { cursor } = pages;
  const { data, error } = useLoad((signal) => call<RevisionsPage>("/v1/revisions", { query: { namespace, kind: "rule", id, cursor, limit: "10" }, signal }), `${cursor}`);
  return (
    <section aria-labelledby="history-title">
      <h2 id="history-title">History</h2>
      {error && <ErrorNotice error={error} />}
      {!data && !error && <Loading what="the history" />}
      {data && data.revisions.length === 0 && <p class="muted">There is no history.</p>}
      {data && (
        <ol class="history">
          {data.revisions.map((r, i) => (
            <Change key={r.revision} of={r} namespace={namespace} id={id} item={item} onRestored={onRestored} open={i === 0 && pages.number === 1} />
          ))}
        </ol>
      )}
      {data && <Pager pages={pages} next={data.next} label="Pages of the history" words={["Later", "Earlier"]} />}
    </section>
  );
}

/** One change. Its difference is loaded when it is opened. */
function Change({ of, namespace, id, item, onRestored, open }: Past & { of: Revision; open: boolean }) {
  const [opened, setOpened] = useState(open);
  const what = of.changes?.find((c) => c.kind === "rule" && c.id === id);
  return (
    <li>
      <details open={open} onToggle={(e) => setOpened(e.currentTarget.open)}>
        <summary>
          <span class="num revision">{count(of.revision)}</span>
          {what && <ActionBadge action={what.action} />}
          <span class="num">{stamp(of.time)}</span>
          <span>by {of.actor}</span>
          {of.count > 1 && <span class="muted">with {plural(of.count - 1, "other")}</span>}
          {of.note && <span class="note">“{of.note}”</span>}
        </summary>
        {opened && <ChangeDiff revision={of.revision} namespace={namespace} id={id} item={item} onRestored={onRestored} />}
      </details>
    </li>
  );
}

function ChangeDiff({ revision, namespace, id, item, onRestored }: Past & { revision: number }) {
  const { data, error } = useLoad((signal) => call<Revision>(`/v1/revisions/${revision}`, { query: { namespace }, signal }), `${revision}`);
  const [restoring, setRestoring] = useState(false);
  if (error) return <ErrorNotice error={error} />;
  if (!data) return <Loading what="what changed" />;
  const change = data.diff?.find((d) => d.kind === "rule" && d.id === id);
  const past = change?.after as Rule | undefined;
  const differs = item && past && yaml(item.rule) !== yaml({ ...past, id });
  return (
    <>
      {change?.text ? <Diff text={change.text} /> : <p class="muted">The difference is no longer stored.</p>}
      {differs && (
        <p class="row">
          <button type="button" onClick={() => setRestoring(true)}>
            Roll back to revision {count(revision)} …
          </button>
        </p>
      )}
      {differs && restoring && (
        <ChangeRule
          namespace={namespace}
          item={item}
          next={{ ...past, id }}
          title={`Roll back ${id} to revision ${revision}?`}
          yes="Roll back"
          says={<p>The rule becomes what it was after that revision. Other rules stay as they are.</p>}
          note={`roll back to revision ${revision}`}
          onClose={() => setRestoring(false)}
          onDone={() => {
            setRestoring(false);
            onRestored();
          }}
        />
      )}
    </>
  );
}
