// Erases the statistics of a client.

import { call } from "../api.ts";
import { plural } from "../format.ts";
import { Confirm } from "./confirm.tsx";
import { Pairs } from "./limits.tsx";

interface Props {
  namespace: string;
  client: Record<string, string>;
  onClose: () => void;
  /** Says what was done. */
  onDone: (text: string) => void;
}

export function EraseClient({ namespace, client, onClose, onDone }: Props) {
  const erase = async (): Promise<void> => {
    const { erased } = await call<{ erased: number }>("/v1/traffic/clients:erase", { method: "POST", query: { namespace }, json: { client }, stay: true });
    onDone(erased === 0 ? "The statistics had nothing about this client." : `Its statistics were erased: ${plural(erased, "entry", "entries")}. Nodes follow within seconds.`);
  };
  return (
    <Confirm title="Erase the statistics of this client?" yes="Erase" no="Cancel" onYes={erase} onDone={() => {}} onClose={onClose}>
      <p>
        <Pairs of={Object.entries(client)} />
      </p>
      <p>Its requests over time and its last decisions are removed from the statistics of the rules service and of its nodes. Its limits and what it has consumed stay. This cannot be undone.</p>
    </Confirm>
  );
}
