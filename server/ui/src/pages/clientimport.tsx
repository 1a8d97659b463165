import { useRef, useState } from "preact/hooks";

import { call, Problem, type Imported } from "../api.ts";
import { useAttempt } from "../attempt.ts";
import { count, plural } from "../format.ts";
import { Field, NoteField } from "../parts/form.tsx";
import { Notice, ErrorNotice } from "../parts/notices.tsx";

/** Clients of one request. The progress moves after each. */
const batch = 2_000;

/** A batch may take long on a busy rules service. */
const batchDeadline = 120_000;

const nothing: Imported = { clients: 0, created: 0, updated: 0, unchanged: 0 };

interface Props {
  namespace: string;
  onClose: (message?: string) => void;
  /** Some clients were imported. */
  onImported: () => void;
}

/** Imports clients from a file with one JSON object per line, in batches, so that it can show progress and stop in between. */
export function ClientImport({ namespace, onClose, onImported }: Props) {
  const [lines, setLines] = useState<string[] | undefined>();
  const [name, setName] = useState("");
  const [note, setNote] = useState("");
  const [sum, setSum] = useState(nothing);
  const [state, setState] = useState<"ready" | "running" | "stopped" | "done">("ready");
  const stop = useRef(false);
  const attempt = useAttempt();
  const choose = (file: File | undefined): void => {
    if (!file) return;
    setName(file.name);
    setState("ready");
    setSum(nothing);
    void attempt.run(async () => setLines((await file.text()).split("\n").filter((line) => line.trim() !== "")));
  };
  const run = (): void =>
    void attempt.run(async () => {
      if (!lines) return;
      stop.current = false;
      setState("running");
      let total = sum;
      try {
        while (total.clients < lines.length && !stop.current) {
          total = add(total, await send(namespace, note, lines.slice(total.clients, total.clients + batch), total.clients));
          setSum(total);
        }
        setState(total.clients < lines.length ? "stopped" : "done");
      } catch (err) {
        setState("stopped");
        throw err;
      } finally {
        onImported();
      }
    });
  const all = lines?.length ?? 0;
  return (
    <div class="card form">
      <Field id="import-file" label="File" help={'One client per line, such as {"id":"acme","attributes":{"user":"acme"},"limits":["500/s"]}. Clients that exist are replaced.'}>
        {(props) => <input {...props} type="file" accept=".ndjson,.jsonl,.json" disabled={state === "running"} onChange={(e) => choose(e.currentTarget.files?.[0])} />}
      </Field>
      <NoteField id="import-note" note={note} onChange={setNote} />
      {lines && (
        <div class="import-progress" aria-live="polite">
          <progress aria-label="Imported clients" max={Math.max(1, all)} value={sum.clients} />
          <span class="num">
            {count(sum.clients)} of {plural(all, "client")} of {name}
          </span>
        </div>
      )}
      {sum.clients > 0 && (
        <Notice tone={state === "done" ? "good" : "plain"}>
          {state === "done" ? "Imported: " : state === "stopped" ? "Stopped. Imported so far: " : "Imported so far: "}
          {count(sum.created)} created, {count(sum.updated)} changed, {count(sum.unchanged)} unchanged.
        </Notice>
      )}
      {attempt.error && <ErrorNotice error={attempt.error} />}
      <div class="row">
        {state === "running" ? (
          <button type="button" onClick={() => (stop.current = true)}>
            Stop
          </button>
        ) : (
          <>
            {state !== "done" && (
              <button type="button" class="primary" disabled={all === 0} onClick={run}>
                {state === "stopped" ? "Continue" : all === 0 ? "Import" : `Import ${plural(all, "client")}`}
              </button>
            )}
            <button type="button" onClick={() => onClose(state === "done" ? `${plural(sum.clients, "client")} of ${name} imported.` : undefined)}>
              {state === "done" ? "Show the clients" : "Cancel"}
            </button>
          </>
        )}
      </div>
    </div>
  );
}

/** Sends one batch. Lines in errors count from the beginning of the file. */
async function send(namespace: string, note: string, lines: readonly string[], before: number): Promise<Imported> {
  try {
    return await call<Imported>("/v1/clients:import", { method: "POST", query: { namespace, note: note || undefined }, lines: lines.join("\n") + "\n", deadline: batchDeadline, stay: true });
  } catch (err) {
    if (!(err instanceof Problem)) throw err;
    const errors = err.errors.map((e) => (e.line === undefined ? e : { ...e, line: e.line + before }));
    throw new Problem(err.status, err.message, errors, err.diff, err.current);
  }
}

function add(a: Imported, b: Imported): Imported {
  return { clients: a.clients + b.clients, created: a.created + b.created, updated: a.updated + b.updated, unchanged: a.unchanged + b.unchanged };
}
