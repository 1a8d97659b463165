// What the figures of the fleet mean, in the words of docs/console.md.

const meanings: [string, string][] = [
  ["News", "What nodes, or regions, tell each other of what they let pass, for rules whose limits they share without asking one store for every request."],
  ["Lag", "How old news is when it comes, on average; most is the oldest of late."],
  ["Over limits", "Units that passed beyond a limit because they passed on several nodes before these knew of each other. They are owed: clients wait longer until they are made up for."],
  ["Most of one key", "The most that one client, or one key, was over its limit at a time."],
  ["Lost", "Units of other regions that could not be charged here: they are over a limit and nobody owes them."],
  ["Date", "By how much the fleet's date, by which windows begin, is ahead of the node's. Off is one by more than a second."],
  ["Waiting", "Keys with something to tell, of those remembered."],
  ["Failed, refused", "Exchanges in vain; news that could not be true, and was not believed."],
  ["Leases", "Units that a node takes from the store ahead of their use; what it does not use it hands back, or lets expire."],
  ["Rules lag", "How long after the last change of the rules was made it was in force on the node."],
  ["Late, silent", "Nodes say how they are every 10 s. One is late after 30 s without a word, silent after 3 min, and left out after an hour."],
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
      <p class="muted">Counted since each node was started, as the metrics of the node have it.</p>
    </details>
  );
}
