import { useState } from "preact/hooks";

import { call, type Delivery, type Webhook, type WebhooksPage } from "../api.ts";
import { useAttempt } from "../attempt.ts";
import { given } from "../draft.ts";
import { ago, count, plural, stamp } from "../format.ts";
import { Confirm } from "../parts/confirm.tsx";
import { Field, Form, errorsAt } from "../parts/form.tsx";
import { Badge, Empty, Notice, Loading, ErrorNotice } from "../parts/notices.tsx";
import { Pager, usePages } from "../parts/pager.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { useLoad, useNow } from "../poll.ts";

export function Webhooks({ namespace }: { namespace: string }) {
  const now = useNow();
  const pages = usePages();
  const [creating, setCreating] = useState(false);
  const [deleting, setDeleting] = useState<Webhook | undefined>();
  const [shown, setShown] = useState<Webhook | undefined>();
  const [secret, setSecret] = useState<{ id: string; secret: string } | undefined>();
  const { data, error, loading, again } = useLoad(
    (signal) => call<WebhooksPage>("/v1/webhooks", { query: { namespace, cursor: pages.cursor, limit: "50" }, signal }),
    JSON.stringify([namespace, pages.cursor]),
  );
  return (
    <>
      <div class="page-head">
        <h1 tabIndex={-1}>Webhooks</h1>
        {data && <p class="summary">{plural(data.webhooks.length, "webhook")}</p>}
        <p class="muted lead">URLs that receive a signed request for each rule change or alert in the namespace {namespace}.</p>
      </div>
      {!creating && (
        <div class="toolbar">
          <button type="button" class="primary" onClick={() => setCreating(true)}>
            New webhook
          </button>
        </div>
      )}
      {creating && (
        <NewWebhook
          namespace={namespace}
          onCancel={() => setCreating(false)}
          onDone={(id, secret) => {
            setCreating(false);
            setSecret({ id, secret });
            again();
          }}
        />
      )}
      {secret && (
        <Notice tone="good">
          <p>
            The webhook {secret.id} was created. Its secret, shown this once, signs every request:
          </p>
          <p>
            <code>{secret.secret}</code>
          </p>
        </Notice>
      )}
      {error && <ErrorNotice error={error} />}
      {!data && !error && <Loading what="the webhooks" />}
      {data && (
        <Table
          name="webhooks"
          label="Webhooks"
          columns={columns(now, setShown, setDeleting)}
          rows={data.webhooks}
          keyOf={(w) => w.id}
          busy={loading}
          empty={<Empty title={`There are no webhooks in ${namespace}.`} />}
        />
      )}
      {data && <Pager pages={pages} next={data.next} label="Pages" />}
      {shown && <Deliveries key={shown.id} namespace={namespace} of={shown} now={now} />}
      {deleting && (
        <Confirm
          title={`Delete the webhook ${deleting.id}?`}
          yes={`Delete ${deleting.id}`}
          no="Keep it"
          goes
          onYes={async () => {
            await call("/v1/webhooks/" + encodeURIComponent(deleting.id), { method: "DELETE", query: { namespace }, stay: true });
          }}
          onClose={() => setDeleting(undefined)}
          onDone={() => {
            setDeleting(undefined);
            setShown(undefined);
            again();
          }}
        >
          <p>{deleting.url} receives no more requests. Deliveries that are pending are dropped.</p>
        </Confirm>
      )}
    </>
  );
}

/** What a webhook can be notified of. */
const eventNames: Record<string, string> = { revision: "rule changes", alert: "alerts" };

function columns(now: number, onShow: (w: Webhook) => void, onDelete: (w: Webhook) => void): Column<Webhook>[] {
  return [
    {
      name: "Webhook",
      cell: (w) => (
        <>
          {w.id}
          {w.description && <span class="row-note">{w.description}</span>}
        </>
      ),
    },
    { name: "URL", cell: (w) => <code class="wrap">{w.url}</code> },
    { name: "Events", cell: (w) => (w.events ?? ["revision"]).map((e) => eventNames[e] ?? e).join(", ") },
    {
      name: "Created",
      full: (w) => stamp(w.created),
      cell: (w) => (
        <>
          {ago(w.created, now)} <span class="row-note">by {w.by}</span>
        </>
      ),
    },
    {
      name: "Actions",
      cell: (w) => (
        <span class="badges">
          <button type="button" aria-label={`Deliveries of ${w.id}`} onClick={() => onShow(w)}>
            Deliveries
          </button>
          <button type="button" aria-label={`Delete ${w.id}`} onClick={() => onDelete(w)}>
            Delete …
          </button>
        </span>
      ),
    },
  ];
}

function Deliveries({ namespace, of, now }: { namespace: string; of: Webhook; now: number }) {
  const at = `/v1/webhooks/${encodeURIComponent(of.id)}/deliveries`;
  const { data, error, again } = useLoad((signal) => call<{ deliveries: Delivery[] | null }>(at, { query: { namespace }, signal }), of.id);
  const attempt = useAttempt();
  const retry = (d: Delivery): void =>
    void attempt.run(async () => {
      await call(`${at}/${d.number ?? d.revision}:retry`, { method: "POST", query: { namespace }, stay: true });
      again();
    });
  const list: Column<Delivery>[] = [
    {
      name: "Event",
      cell: (d) =>
        d.alert ? (
          <>
            {d.event} <span class="row-note">{d.alert.id}</span>
          </>
        ) : (
          `revision ${count(d.revision)}`
        ),
    },
    { name: "State", cell: (d) => <Badge tone={d.state === "delivered" ? "good" : d.state === "dead" ? "bad" : "warn"}>{d.state === "dead" ? "given up" : d.state}</Badge> },
    { name: "Attempts", num: true, cell: (d) => count(d.attempts) },
    { name: "Last attempt", cell: (d) => (d.last ? ago(d.last, now) : "–") },
    {
      name: "Response",
      cell: (d) => (
        <>
          {d.status ?? "–"} {d.error && <span class="row-error">{d.error}</span>}
        </>
      ),
    },
    {
      name: "Actions",
      cell: (d) =>
        d.state === "pending" ? null : (
          <button type="button" aria-label={`Send the delivery of ${d.alert ? d.alert.id : `revision ${d.revision}`} again`} onClick={() => retry(d)}>
            Send again
          </button>
        ),
    },
  ];
  return (
    <section aria-labelledby="deliveries-title">
      <h2 id="deliveries-title">Deliveries of {of.id}</h2>
      {error && <ErrorNotice error={error} />}
      {attempt.error && <ErrorNotice error={attempt.error} />}
      {!data && !error && <Loading what="the deliveries" />}
      {data && <Table name="deliveries" label={{ by: "deliveries-title" }} columns={list} rows={data.deliveries ?? []} keyOf={(d) => `${d.revision}/${d.number ?? ""}`} empty={<p class="muted">Nothing was sent yet.</p>} />}
    </section>
  );
}

function NewWebhook({ namespace, onDone, onCancel }: { namespace: string; onDone: (id: string, secret: string) => void; onCancel: () => void }) {
  const [form, setForm] = useState({ id: "", url: "", description: "" });
  const [events, setEvents] = useState("revision");
  const attempt = useAttempt();
  const { error } = attempt;
  const create = (): void =>
    void attempt.run(async () => {
      const made = await call<{ webhook: Webhook; secret: string }>("/v1/webhooks", { method: "POST", query: { namespace }, json: { ...given(form), events: events.split(" ") }, stay: true });
      onDone(made.webhook.id, made.secret);
    });
  return (
    <Form attempt={attempt} fields={["id", "url", "description", "events"]} onSubmit={create} submit="Create" onCancel={onCancel}>
      <div class="fields">
        <Field id="w-url" label="URL" class="wide" help="Such as https://example.com/hooks/headgate." errors={errorsAt(error, "url")}>
          {(props) => <input {...props} autocomplete="off" spellcheck={false} value={form.url} onInput={(e) => setForm({ ...form, url: e.currentTarget.value })} />}
        </Field>
        <Field id="w-id" label="Name" help="Empty: a random one." errors={errorsAt(error, "id")}>
          {(props) => <input {...props} autocomplete="off" spellcheck={false} value={form.id} onInput={(e) => setForm({ ...form, id: e.currentTarget.value })} />}
        </Field>
        <Field id="w-events" label="Events" errors={errorsAt(error, "events")}>
          {(props) => (
            <select {...props} value={events} onChange={(e) => setEvents(e.currentTarget.value)}>
              <option value="revision">rule changes</option>
              <option value="alert">alerts</option>
              <option value="revision alert">both</option>
            </select>
          )}
        </Field>
        <Field id="w-description" label="Description" class="wide" errors={errorsAt(error, "description")}>
          {(props) => <input {...props} maxLength={1000} value={form.description} onInput={(e) => setForm({ ...form, description: e.currentTarget.value })} />}
        </Field>
      </div>
    </Form>
  );
}
