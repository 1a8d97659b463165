// Formats figures and times.

const thin = "\u202f";

/** Larger figures are wrong and are shown in short form. */
const absurd = 1e12;

/** 1234567 as 1 234 567, with thin spaces. */
export function count(n: number): string {
  if (!Number.isFinite(n)) return "–";
  if (Math.abs(n) >= absurd) return n.toExponential(1).replace("e+", "e");
  return Math.round(n)
    .toString()
    .replace(/\B(?=(\d{3})+(?!\d))/g, thin);
}

/** A rate per second: 0, 0.3, 12, 1 234. */
export function rate(n: number): string {
  if (n > 0 && n < 0.05) return "< 0.1";
  return n < 10 ? trim(n.toFixed(1)) : count(n);
}

/** Milliseconds as the one unit that fits: 0.4 ms, 48 ms, 1.2 s, 3 min, 2 h, 5 d. */
export function span(ms: number): string {
  const size = Math.abs(ms);
  if (size < 0.05) return "0" + thin + "ms";
  if (size < 9.95) return trim(ms.toFixed(1)) + thin + "ms";
  if (size < 999.5) return Math.round(ms) + thin + "ms";
  if (size < 9_950) return trim((ms / 1000).toFixed(1)) + thin + "s";
  if (size < 59_500) return Math.round(ms / 1000) + thin + "s";
  const minutes = Math.round(ms / 60_000);
  if (Math.abs(minutes) < 60) return minutes + thin + "min";
  const hours = Math.round(ms / 3_600_000);
  return Math.abs(hours) < 48 ? hours + thin + "h" : Math.round(ms / 86_400_000) + thin + "d";
}

/** A time to wait: -1 is never, 0 is now. */
export function wait(ms: number): string {
  if (ms < 0) return "never";
  return ms === 0 ? "now" : "in " + span(ms);
}

/** How long ago a time was. Clocks differ, so a time slightly in the future is "now". */
export function ago(time: string | undefined, now: number): string {
  const at = time === undefined ? NaN : Date.parse(time);
  if (Number.isNaN(at)) return "–";
  const ms = now - at;
  if (ms < -5_000) return "in " + span(-ms);
  return ms < 1_500 ? "now" : span(Math.max(1_000, Math.round(ms / 1_000) * 1_000)) + " ago";
}

/** A date and time in the user's time zone, with constant width. */
export function stamp(time: string): string {
  const at = new Date(time);
  if (Number.isNaN(at.getTime())) return time;
  const two = (n: number): string => n.toString().padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** Since when and until when rules are not enforced. A time of another day has its date. */
export function offTimes({ since, expires }: { since: string; expires: string }, now: number): string {
  const today = stamp(new Date(now).toISOString()).slice(0, 10);
  const text = (time: string): string => (stamp(time).startsWith(today) ? stamp(time).slice(11, 16) : stamp(time).slice(0, 16));
  return `It has been off since ${text(since)}, and is on again ${ago(expires, now)}, at ${text(expires)}`;
}

/** A time in the user's time zone, to the minute, for an input of type datetime-local. */
export function localTime(at: number): string {
  return stamp(new Date(at).toISOString()).slice(0, 16).replace(" ", "T");
}

/** 1 node, 2 nodes. */
export function plural(n: number, one: string, many: string = one + "s"): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** The maximum length of a text from a node, which may send 4096 bytes. */
export const longest = 120;

/** Cuts a long text after whole characters. */
export function short(text: string, most = longest): string {
  if (text.length <= most) return text;
  const letters = [...text];
  return letters.length <= most ? text : letters.slice(0, most).join("") + "…";
}

function trim(text: string): string {
  return text.endsWith(".0") ? text.slice(0, -2) : text;
}

/** A text of a log as a sentence: with a capital letter and a full stop. */
export function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?…]$/.test(text) ? "" : ".");
}

/** A share in percent: 0 %, < 0.1 %, 3.4 %, 98 %; a dash if there is none. */
export function percent(value: number | undefined): string {
  if (value === undefined) return "–";
  if (value > 0 && value < 0.1) return "< 0.1" + thin + "%";
  if (value > 99.9 && value < 100) return "> 99.9" + thin + "%";
  return (value < 10 ? trim(value.toFixed(1)) : Math.round(value).toString()) + thin + "%";
}

/** Bytes in the unit that fits: 999 B, 1.5 kB, 12 MB, 3.2 GB. */
export function bytes(n: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = n;
  let unit = 0;
  while (size >= 999.5 && unit < units.length - 1) {
    size /= 1000;
    unit++;
  }
  return (unit === 0 || size >= 9.95 ? Math.round(size).toString() : trim(size.toFixed(1))) + thin + units[unit];
}
