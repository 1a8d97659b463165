/** Parses lines with a name, a separator and a value. Empty lines are ignored, and a line without a separator has an empty value. */
export function pairs(text: string, sign: string): Record<string, string> {
  const made: Record<string, string> = {};
  for (const line of text.split("\n")) {
    const at = line.indexOf(sign);
    const name = (at < 0 ? line : line.slice(0, at)).trim();
    if (name !== "") made[name] = at < 0 ? "" : line.slice(at + sign.length).trim();
  }
  return made;
}
