// A unified diff, a line each, with signs that do not depend on colour.

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
