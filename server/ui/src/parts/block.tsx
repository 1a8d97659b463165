// Blocks a client for a time.

import { useState } from "preact/hooks";

import { call, clock, type OverrideItem } from "../api.ts";
import { span, stamp } from "../format.ts";
import { Confirm } from "./confirm.tsx";
import { Field } from "./form.tsx";
import { Pairs } from "./limits.tsx";

const minute = 60_000;
const spans = [10 * minute, 60 * minute, 24 * 60 * minute, 7 * 24 * 60 * minute];

interface Props {
  namespace: string;
  client: Record<string, string>;
  onClose: () => void;
  onDone: (text: string) => void;
}

export function BlockClient({ namespace, client, onClose, onDone }: Props) {
  const [ms, setMs] = useState(60 * minute);
  const [note, setNote] = useState("");
  return (
    <Confirm
      title="Block this client?"
      yes={`Block for ${span(ms)}`}
      no="Cancel"
      onClose={onClose}
      onYes={async () => {
        const expires = new Date(clock() + ms).toISOString();
        const made = await call<OverrideItem>("/v1/overrides", { method: "POST", query: { namespace }, json: { client, block: true, expires, ...(note ? { note } : {}) }, stay: true });
        onDone(`The client is blocked until ${stamp(made.override.expires)}. End it on the Overrides page.`);
      }}
      onDone={() => {}}
    >
      <p>
        <Pairs of={Object.entries(client)} />
      </p>
      <p>Every request of this client is denied, on every node within a second, under each rule that counts it. The block ends by itself.</p>
      <Field id="block-for" label="For">
        {(props) => (
          <select {...props} value={`${ms}`} onChange={(e) => setMs(Number(e.currentTarget.value))}>
            {spans.map((s) => (
              <option key={s} value={`${s}`}>
                {span(s)}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Field id="block-note" label="Reason, for the audit log" class="full">
        {(props) => <input {...props} maxLength={1000} value={note} onInput={(e) => setNote(e.currentTarget.value)} />}
      </Field>
    </Confirm>
  );
}
