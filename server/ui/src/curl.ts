// Reads a request from a curl command line.

export interface CurlRequest {
  method: string;
  url: string;
  /** One header per line, such as Name: value. */
  headers: string;
}

/** Ignored options of curl that take a value. */
const withValue = new Set(["-o", "--output", "-m", "--max-time", "--connect-timeout", "-w", "--write-out", "-x", "--proxy", "--cacert", "--cert", "--key", "--resolve", "--retry", "-F", "--form", "-T", "--upload-file", "-e", "-K", "--config"]);

const body = new Set(["-d", "--data", "--data-raw", "--data-binary", "--data-urlencode", "--json"]);

/** Returns the request of a curl line, or throws an Error that says what is missing. */
export function readCurl(line: string): CurlRequest {
  const words = split(line.replace(/\\\r?\n/g, " "));
  if (words[0]?.replace(/^.*\//, "") !== "curl") throw new Error("This is not a curl command. Start it with curl.");
  let method = "";
  let url = "";
  let posts = false;
  let asGet = false;
  const headers: string[] = [];
  for (let i = 1; i < words.length; i++) {
    const [name, value] = option(words, i);
    const take = (): string => {
      if (value !== undefined) return value;
      i++;
      return words[i] ?? "";
    };
    if (name === "-X" || name === "--request") method = take();
    else if (name === "-H" || name === "--header") headers.push(take());
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
    else if (!name.startsWith("-") && url === "") url = name;
  }
  if (url === "") throw new Error("The curl command has no URL.");
  if (!/^[a-z]+:\/\//i.test(url)) url = "http://" + url;
  return { method: method || (posts && !asGet ? "POST" : "GET"), url, headers: headers.filter((h) => h.includes(":")).join("\n") };
}

/** An option and the value that is written together with it: --header=value, -Hvalue. */
function option(words: readonly string[], i: number): [string, string | undefined] {
  const word = words[i] ?? "";
  if (word.startsWith("--")) {
    const at = word.indexOf("=");
    return at < 0 ? [word, undefined] : [word.slice(0, at), word.slice(at + 1)];
  }
  if (/^-[XHAbud]./.test(word)) return [word.slice(0, 2), word.slice(2)];
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
