// Line differences of short texts.

/** Returns all lines of both texts with a sign in front: "-" for removed, "+" for added ones. */
export function lineDiff(before: string, after: string): string {
  const a = lines(before);
  const b = lines(after);
  // common[i][j] is the length of the longest common subsequence of the lines from i and from j on.
  const common = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0));
  const at = (i: number, j: number): number => common[i]?.[j] ?? 0;
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const row = common[i];
      if (row) row[j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  let made = "";
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      made += ` ${a[i++]}\n`;
      j++;
    } else if (i < a.length && (j === b.length || at(i + 1, j) >= at(i, j + 1))) made += `-${a[i++]}\n`;
    else made += `+${b[j++]}\n`;
  }
  return made;
}

function lines(text: string): string[] {
  return text === "" ? [] : text.replace(/\n$/, "").split("\n");
}
