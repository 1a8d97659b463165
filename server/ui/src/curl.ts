// Reads a request from a curl command line.

export interface CurlRequest {
  method: string;
  url: string;
  /** One header per line, such as Name: value. */
  headers: string;
  /** The parts of the command that may matter and are not in the request, and why. */
  ignored: string[];
}

/** Options of curl that take a value and change nothing for rules. */
const withValue = new Set(["-o", "--output", "-m", "--max-time", "--connect-timeout", "-w", "--write-out", "-x", "--proxy", "--cacert", "--resolve", "--retry"]);

/** Options that take a value and may set headers or a client, and why they are left out. */
const left = new Map([
  ["-K", "the file is not read"],
  ["--config", "the file is not read"],
  ["--cert", "certificates of clients are not read"],
  ["--key", "certificates of clients are not read"],
  ["--oauth2-bearer", "write it as -H 'Authorization: Bearer …'"],
  ["-n", "the file .netrc is not read"],
  ["--netrc", "the file .netrc is not read"],
]);
const leftWithoutValue = new Set(["-n", "--netrc"]);

/** Options without a value that change nothing for rules. */
const plain = new Set(["-s", "--silent", "-S", "--show-error", "-v", "--verbose", "-k", "--insecure", "-L", "--location", "-i", "--include", "-f", "--fail", "--compressed", "--http1.1", "--http2", "-g", "--globoff", "-N", "--no-buffer", "-#", "--progress-bar", "-O", "-4", "-6"]);

const body = new Set(["-F", "--form", "-T", "--upload-file", "-d", "--data", "--data-raw", "--data-binary", "--data-urlencode", "--json"]);

/** Returns the request of a curl line, or throws an Error that says what is missing. */
export function readCurl(line: string): CurlRequest {
  const words = split(line.replace(/\\\r?\n/g, " "));
  if (words[0]?.replace(/^.*\//, "") !== "curl") throw new Error("This is not a curl command. Start it with curl.");
  let method = "";
  let url = "";
  let posts = false;
  let asGet = false;
  const headers: string[] = [];
  const ignored: string[] = [];
  for (let i = 1; i < words.length; i++) {
    const [name, value] = option(words, i);
    const take = (): string => {
      if (value !== undefined) return value;
      i++;
      return words[i] ?? "";
    };
    const header = (text: string): void => {
      if (text.startsWith("@")) ignored.push(`${name} ${text}: the file is not read`);
      else if (/^[^:;\s]+:./.test(text)) headers.push(text);
      else ignored.push(`${name} ${text}: a header is written as Name: value`);
    };
    if (name === "-X" || name === "--request") method = take();
    else if (name === "-H" || name === "--header") header(take());
    else if (name === "-e" || name === "--referer") headers.push("Referer: " + take());
    else if (name === "-A" || name === "--user-agent") headers.push("User-Agent: " + take());
    else if (name === "-b" || name === "--cookie") headers.push("Cookie: " + take());
    else if (name === "-u" || name === "--user") headers.push("Authorization: Basic " + btoa(take()));
    else if (name === "--url") url = take();
    else if (name === "-I" || name === "--head") method = method || "HEAD";
    else if (name === "-G" || name === "--get") asGet = true;
    else if (body.has(name)) {
      take();
      posts = true;
    } else if (withValue.has(name)) take();
    else if (left.has(name)) ignored.push(`${name}${leftWithoutValue.has(name) ? "" : " " + take()}: ${left.get(name)}`);
    else if (!name.startsWith("-") && url === "") url = name;
    else if (!plain.has(name)) ignored.push(`${name}: ${name.startsWith("-") ? "this option is not known" : "a second URL"}`);
  }
  if (url === "") throw new Error("The curl command has no URL.");
  if (!/^[a-z]+:\/\//i.test(url)) url = "http://" + url;
  return { method: method || (posts && !asGet ? "POST" : "GET"), url, headers: headers.join("\n"), ignored };
}

/** An option and the value that is written together with it: --header=value, -Hvalue. */
function option(words: readonly string[], i: number): [string, string | undefined] {
  const word = words[i] ?? "";
  if (word.startsWith("--")) {
    const at = word.indexOf("=");
    return at < 0 ? [word, undefined] : [word.slice(0, at), word.slice(at + 1)];
  }
  if (/^-[XHAbudeK]./.test(word)) return [word.slice(0, 2), word.slice(2)];
  // In combined options such as -so FILE, only the last can take a value.
  return /^-[A-Za-z]{2,}$/.test(word) ? ["-" + word.slice(-1), undefined] : [word, undefined];
}

/** The words of a command line, with the quotes of a shell. */
function split(line: string): string[] {
  const words: string[] = [];
  let word: string | undefined;
  let quote = "";
  for (let i = 0; i < line.length; i++) {
    const c = line[i] ?? "";
    if (quote === "'") {
      if (c === "'") quote = "";
      else word += c;
    } else if (c === "\\" && i + 1 < line.length) {
      i++;
      word = (word ?? "") + line[i];
    } else if (quote === '"') {
      if (c === '"') quote = "";
      else word += c;
    } else if (c === "'" || c === '"') {
      quote = c;
      word ??= "";
    } else if (/\s/.test(c)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else word = (word ?? "") + c;
  }
  if (quote !== "") throw new Error(`A quote ${quote} is not closed.`);
  if (word !== undefined) words.push(word);
  return words;
}
