import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { call, type Token, type TokensPage } from "../api.ts";
import { useAttempt } from "../attempt.ts";
import { given, splitList } from "../draft.ts";
import { ago, stamp } from "../format.ts";
import { Confirm } from "../parts/confirm.tsx";
import { Choice, Field, Form, errorsAt } from "../parts/form.tsx";
import { Badge, Empty, Notice, Loading, ErrorNotice } from "../parts/notices.tsx";
import { Pager, usePages } from "../parts/pager.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { useLoad, useNow } from "../poll.ts";
import { go } from "../route.ts";
import type { Session } from "../session.ts";

interface Created {
  token: Token;
  secret: string;
}

export function Tokens({ session, query }: { session: Session; query: URLSearchParams }) {
  const pages = usePages();
  const now = useNow();
  const [created, setCreated] = useState<Created | undefined>();
  const [revoking, setRevoking] = useState<Token | undefined>();
  const { data, error, again } = useLoad((signal) => call<TokensPage>("/v1/tokens", { query: { cursor: pages.cursor, limit: "50" }, signal }), `${pages.cursor}`);
  const making = query.has("new");
  const leave = (): void => go("/tokens", true);
  return (
    <>
      <div class="page-head">
        <h1 tabIndex={-1}>{making ? "New token" : "Tokens"}</h1>
        <p class="muted lead">People, programs and nodes sign in with tokens. Only their hashes are stored.</p>
      </div>
      {making && (
        <NewToken
          namespaces={session.who?.namespaces ?? []}
          onCancel={leave}
          onDone={(made) => {
            setCreated(made);
            leave();
            again();
          }}
        />
      )}
      {!making && (
        <>
          <div class="toolbar">
            <a class="button primary" href="/tokens?new">
              New token
            </a>
          </div>
          {created && <Secret of={created} onClose={() => setCreated(undefined)} />}
          {error && <ErrorNotice error={error} />}
          {!data && !error && <Loading what="the tokens" />}
          {data && (
            <Table
              name="tokens"
              label="Tokens"
              columns={columns(now, session.who?.id, setRevoking)}
              rows={data.tokens}
              keyOf={(t) => t.id}
              empty={<Empty title="There are no tokens besides the one in the file." />}
            />
          )}
          {data && <Pager pages={pages} next={data.next} label="Pages" />}
        </>
      )}
      {revoking && (
        <Confirm
          title={`Revoke the token ${revoking.id}?`}
          yes={`Revoke ${revoking.id}`}
          no="Keep it"
          onClose={() => setRevoking(undefined)}
          onYes={async () => void (await call("/v1/tokens/" + encodeURIComponent(revoking.id), { method: "DELETE", stay: true }))}
          onDone={() => {
            setRevoking(undefined);
            if (created?.token.id === revoking.id) setCreated(undefined);
            again();
          }}
          goes
        >
          <p>
            Requests with this token ({revoking.role} of {where(revoking)}) are then refused. {revoking.id === session.who?.id && "You are signed in with it. "}
            This cannot be undone.
          </p>
        </Confirm>
      )}
    </>
  );
}

/** Shows a new secret, once. */
function Secret({ of: { token, secret }, onClose }: { of: Created; onClose: () => void }) {
  const [copied, setCopied] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => {
    field.current?.focus();
    field.current?.select();
  }, []);
  return (
    <Notice tone="good">
      <p>
        The token {token.id} ({token.role} of {where(token)}) is created. It is shown only once: store it now.
      </p>
      <p class="row">
        <input ref={field} class="code secret" readOnly aria-label={`The token ${token.id}`} value={secret} onFocus={(e) => e.currentTarget.select()} />
        <button
          type="button"
          onClick={() =>
            void navigator.clipboard?.writeText(secret).then(
              () => setCopied(true),
              () => field.current?.select(),
            )
          }
        >
          {copied ? "Copied" : "Copy"}
        </button>
        <button type="button" onClick={onClose}>
          Hide it
        </button>
      </p>
    </Notice>
  );
}

const roles: [Token["role"], string][] = [
  ["viewer", "viewer: reads"],
  ["editor", "editor: changes rules, clients and overrides"],
  ["admin", "admin: also tokens, webhooks and audit"],
  ["node", "node: fetches rules only"],
];

const lasts: [string, string][] = [
  ["", "until it is revoked"],
  ["1d", "for a day"],
  ["30d", "for 30 days"],
  ["365d", "for a year"],
];

function NewToken({ namespaces, onDone, onCancel }: { namespaces: string[]; onDone: (made: Created) => void; onCancel: () => void }) {
  const [form, setForm] = useState({ id: "", role: "viewer", namespaces: namespaces.join(", "), lasts: "", description: "" });
  const attempt = useAttempt();
  const first = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => first.current?.focus(), []);
  const set = (change: Partial<typeof form>): void => setForm({ ...form, ...change });
  const { error } = attempt;
  const create = (): void =>
    void attempt.run(async () => {
      const json = { role: form.role, namespaces: splitList(form.namespaces), ...given({ id: form.id.trim(), description: form.description, for: form.lasts }) };
      onDone(await call<Created>("/v1/tokens", { method: "POST", json, stay: true }));
    });
  return (
    <Form
      attempt={attempt}
      fields={["id", "role", "namespaces", "for", "expires", "description"]}
      onSubmit={create}
      submit="Create"
      onCancel={onCancel}
    >
      <div class="fields">
        <Field id="t-id" label="Id" class="wide" help="Shown in the history with each change. Empty: a random one." errors={errorsAt(error, "id")}>
          {(props) => <input {...props} ref={first} autocomplete="off" spellcheck={false} value={form.id} onInput={(e) => set({ id: e.currentTarget.value })} />}
        </Field>
        <Field id="t-namespaces" label="Namespaces" class="wide" help="Separate several with commas. * is all." errors={errorsAt(error, "namespaces")}>
          {(props) => <input {...props} autocomplete="off" spellcheck={false} value={form.namespaces} onInput={(e) => set({ namespaces: e.currentTarget.value })} />}
        </Field>
      </div>
      <div class="fields">
        <Field id="t-role" label="Role" errors={errorsAt(error, "role")}>
          {(props) => <Choice props={props} of={roles} value={form.role} onChange={(role) => set({ role })} />}
        </Field>
        <Field id="t-for" label="Valid" errors={[...errorsAt(error, "for"), ...errorsAt(error, "expires")]}>
          {(props) => <Choice props={props} of={lasts} value={form.lasts} onChange={(value) => set({ lasts: value })} />}
        </Field>
        <Field id="t-description" label="Description" class="wide" errors={errorsAt(error, "description")}>
          {(props) => <input {...props} value={form.description} onInput={(e) => set({ description: e.currentTarget.value })} />}
        </Field>
      </div>
    </Form>
  );
}

function where({ namespaces }: Token): string {
  return namespaces.includes("*") ? "all namespaces" : namespaces.join(", ");
}

function columns(now: number, mine: string | undefined, onRevoke: (token: Token) => void): Column<Token>[] {
  return [
    {
      name: "Token",
      cell: (t) => (
        <>
          {t.id} {t.id === mine && <Badge tone="plain">yours</Badge>}
          {t.description && <span class="row-note">{t.description}</span>}
        </>
      ),
    },
    { name: "Role", cell: ({ role }) => role },
    { name: "Namespaces", cell: where },
    {
      name: "Expires",
      full: ({ expires }) => expires && stamp(expires),
      cell: ({ expires, expired }) => (expired ? <Badge tone="warn">expired</Badge> : expires ? ago(expires, now) : <span class="muted">never</span>),
    },
    {
      name: "Created",
      full: ({ created }) => stamp(created),
      cell: ({ created, by }) => (
        <>
          {ago(created, now)} <span class="row-note">by {by}</span>
        </>
      ),
    },
    {
      name: "Actions",
      cell: (t) => (
        <button type="button" aria-label={`Revoke ${t.id}`} onClick={() => onRevoke(t)}>
          Revoke …
        </button>
      ),
    },
  ];
}
