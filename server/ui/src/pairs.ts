/** Reads lines of a name and a value; those that are empty are nothing. A line without a sign is a name without a value. */
export function pairs(text: string, sign: string): Record<string, string> {
  const made: Record<string, string> = {};
  for (const line of text.split("\n")) {
    const at = line.indexOf(sign);
    const name = (at < 0 ? line : line.slice(0, at)).trim();
    if (name !== "") made[name] = at < 0 ? "" : line.slice(at + sign.length).trim();
  }
  return made;
}
