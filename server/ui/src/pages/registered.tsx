import { useRef, useState } from "preact/hooks";

import { call, type ClientItem, type ClientsPage } from "../api.ts";
import { ago, count, plural, stamp } from "../format.ts";
import { Confirm } from "../parts/confirm.tsx";
import { NoteField } from "../parts/form.tsx";
import { Pairs } from "../parts/limits.tsx";
import { Badge, Empty, Notice, Loading, ErrorNotice } from "../parts/notices.tsx";
import { Pager, usePages } from "../parts/pager.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { useLoad, useNow } from "../poll.ts";
import { powers, type Session } from "../session.ts";
import { ClientTabs } from "./clients.tsx";
import { ClientForm } from "./clientform.tsx";
import { ClientImport } from "./clientimport.tsx";

const pageSize = 50;

/** The form that is shown in place of the list. */
type Task = { name: "add" } | { name: "edit"; item: ClientItem } | { name: "import" };

/** Clients with limits of their own: list, add, change, delete, import. */
export function RegisteredClients({ session }: { session: Session }) {
  const { namespace } = session;
  const may = powers(session);
  const now = useNow();
  const pages = usePages();
  const title = useRef<HTMLHeadingElement>(null);
  const [search, setSearch] = useState("");
  const [text, setText] = useState("");
  const [task, setTask] = useState<Task | undefined>();
  const [deleting, setDeleting] = useState<ClientItem | undefined>();
  const [done, setDone] = useState("");
  const { data, error, loading, again } = useLoad(
    (signal) => call<ClientsPage>("/v1/clients", { query: { namespace, q: search || undefined, cursor: pages.cursor, limit: `${pageSize}` }, signal }),
    JSON.stringify([namespace, search, pages.cursor]),
  );
  const leave = (message = ""): void => {
    setTask(undefined);
    setDone(message);
    if (message !== "") again();
    title.current?.focus();
  };
  const titles = { add: "Register a client", edit: "Change a registered client", import: "Import clients" };
  return (
    <>
      <div class="page-head">
        <h1 ref={title} tabIndex={-1}>
          {task ? titles[task.name] : "Clients"}
        </h1>
        {data && !task && <p class="summary">{plural(data.total, "registered client")}</p>}
        <p class="muted lead">Registered clients have limits of their own under all rules, or properties such as a plan that rules match.</p>
      </div>
      {!task && <ClientTabs registered />}
      {task?.name === "import" && <ClientImport namespace={namespace} onClose={leave} onImported={again} />}
      {(task?.name === "add" || task?.name === "edit") && (
        <ClientForm namespace={namespace} item={task.name === "edit" ? task.item : undefined} onDone={(id) => leave(`The client ${id} is saved.`)} onCancel={() => leave()} />
      )}
      {!task && (
        <>
          <form
            class="toolbar"
            onSubmit={(e) => {
              e.preventDefault();
              pages.first();
              setSearch(text.trim());
            }}
          >
            <input type="search" data-search placeholder="Find by id or attribute   /" aria-label="Find registered clients" value={text} onInput={(e) => setText(e.currentTarget.value)} />
            <button type="submit">Find</button>
            {may.rules && (
              <span class="toolbar-end">
                <button type="button" onClick={() => setTask({ name: "import" })}>
                  Import …
                </button>
                <button type="button" class="primary" onClick={() => setTask({ name: "add" })}>
                  Register a client
                </button>
              </span>
            )}
          </form>
          {session.who?.read_only && <Notice tone="plain">Clients cannot be changed here: {session.who.read_only}.</Notice>}
          {done !== "" && <Notice tone="good">{done}</Notice>}
          {error && <ErrorNotice error={error} />}
          {!data && !error && <Loading what="the clients" />}
          {data && (
            <Table
              name="registered"
              label="Registered clients"
              columns={may.rules ? [...columns(now), actions((item) => setTask({ name: "edit", item }), setDeleting)] : columns(now)}
              rows={data.clients}
              keyOf={({ client }) => client.id}
              busy={loading}
              empty={
                <Empty title={search === "" ? `No client is registered in ${namespace}.` : `No registered client contains “${search}”.`}>
                  {search === "" && may.rules && (
                    <p>
                      Register one here, import a file, or use <code>headgate clients set acme --limit 500/s</code>.
                    </p>
                  )}
                </Empty>
              }
            />
          )}
          {data && <Pager pages={pages} next={data.next} label="Pages of registered clients" />}
        </>
      )}
      {deleting && (
        <DeleteClient
          namespace={namespace}
          item={deleting}
          onClose={() => setDeleting(undefined)}
          onDone={() => {
            setDone(`The client ${deleting.client.id} is deleted.`);
            setDeleting(undefined);
            again();
          }}
        />
      )}
    </>
  );
}

interface Deletion {
  namespace: string;
  item: ClientItem;
  onClose: () => void;
  onDone: () => void;
}

function DeleteClient({ namespace, item: { client, revision }, onClose, onDone }: Deletion) {
  const [note, setNote] = useState("");
  const remove = async (): Promise<void> => {
    await call("/v1/clients/" + encodeURIComponent(client.id), { method: "DELETE", query: { namespace, note: note || undefined }, ifMatch: revision, stay: true });
  };
  return (
    <Confirm title={`Delete the client ${client.id}?`} yes={`Delete ${client.id}`} no="Keep it" onYes={remove} onDone={onDone} onClose={onClose} goes>
      <p>It then has the limits of the rules, as every client that is not registered.</p>
      <NoteField id="client-delete-note" note={note} onChange={setNote} />
    </Confirm>
  );
}

function columns(now: number): Column<ClientItem>[] {
  return [
    { name: "Client", cell: ({ client }) => client.id },
    {
      name: "Attributes",
      cell: ({ client }) => <Pairs of={Object.entries(client.attributes ?? { user: client.id }).map(([name, value]) => [name, Array.isArray(value) ? value.join(", ") : `${value}`])} />,
    },
    {
      name: "Limits",
      cell: ({ client }) => (
        <span class="badges">
          {client.block && <Badge tone="bad">blocked</Badge>}
          {client.unlimited && <Badge tone="plain">no limit</Badge>}
          {(client.limits ?? []).map((limit, i) => (
            <code key={i}>{typeof limit === "string" ? limit : JSON.stringify(limit)}</code>
          ))}
          {client["rules"] !== undefined && <Badge tone="plain">by rule</Badge>}
          {!client.block && !client.unlimited && !client.limits?.length && client["rules"] === undefined && <span class="muted">of the rules</span>}
        </span>
      ),
    },
    { name: "Revision", num: true, cell: ({ revision }) => count(revision) },
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

function actions(onEdit: (item: ClientItem) => void, onDelete: (item: ClientItem) => void): Column<ClientItem> {
  return {
    name: "Actions",
    cell: (item) => (
      <span class="badges">
        <button type="button" aria-label={`Edit ${item.client.id}`} onClick={() => onEdit(item)}>
          Edit
        </button>
        <button type="button" aria-label={`Delete ${item.client.id}`} onClick={() => onDelete(item)}>
          Delete …
        </button>
      </span>
    ),
  };
}
