// Explains the figures of the Fleet page.

const meanings: [string, string][] = [
  ["Sync", "Updates that nodes, or regions, send each other, for rules whose limits they share without asking one store for every request."],
  ["Lag", "Recent mean age of updates when they arrive; most is the oldest."],
  ["Over-admission", "Units admitted above a limit because several nodes admitted them before updates arrived. They are owed: clients wait longer until they are repaid."],
  ["Max. of one key", "The largest over-admission of one client, or one key."],
  ["Lost", "Units of other regions that could not be charged here: over-admission that is not repaid."],
  ["Clock", "How far the fleet's clock, which windows use, is ahead of the node's. Off means more than a second."],
  ["To send", "Keys with updates to send, of all keys."],
  ["Failed, refused", "Failed exchanges; updates refused as impossible."],
  ["Leases", "Units that a node takes from the store in advance; unused ones are returned, or expire."],
  ["Rules lag", "Time from the last change of the rules until the node applied it."],
  ["Late, silent", "Nodes send a heartbeat every 10 s. A node is late after 30 s without one, silent after 3 min, and removed after an hour."],
];

export function Legend() {
  return (
    <details class="legend">
      <summary>What these figures mean</summary>
      <dl>
        {meanings.map(([name, meaning]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
      <p class="muted">Counted since each node started, as in its metrics.</p>
    </details>
  );
}
