// A unified diff. Signs show the kind of each line, besides colours.

export function Diff({ text }: { text: string }) {
  const lines = text.replace(/\n$/, "").split("\n");
  return (
    <pre class="diff" tabIndex={0}>
      {lines.map((line, i) => {
        const kind = line.startsWith("@@") ? "hunk" : line.startsWith("---") || line.startsWith("+++") ? "file" : line.startsWith("+") ? "add" : line.startsWith("-") ? "del" : "";
        return (
          <span key={i} class={kind}>
            {line + "\n"}
          </span>
        );
      })}
    </pre>
  );
}
