// Calls the API of the rules service and of this node.

import type { Status } from "./statetypes.ts";
import type { FieldError, Override, Rule, Stored } from "./types.ts";

export type * from "./statetypes.ts";
export type * from "./types.ts";

/** Why a call failed, in words for users. The status is 0 if there was no response. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly errors: FieldError[] = [],
    readonly diff: string = "",
    readonly current?: Stored & { rule?: Rule; override?: Override },
  ) {
    super(message);
  }
}

/** Deadline of a call in milliseconds. */
const patience = 15_000;

/** The token of the session. Every call sends it. */
let token = "";

export function setToken(value: string): void {
  token = value;
}

/** How far the node's clock is ahead of this host's, in milliseconds. Times in responses are the node's, and the clock of a user may be minutes off. */
let ahead = 0;

/** Smaller differences come from the Date header, which has whole seconds, and from network delay. */
const sameTime = 3_000;

/** Returns the node's time. */
export function clock(): number {
  return Date.now() + ahead;
}

/** Sets the clock from the Date header of a response that has just arrived. */
export function setClock(date: string | null, now: number): void {
  const at = date === null ? NaN : Date.parse(date);
  if (Number.isNaN(at)) return;
  if (Math.abs(at - (now + ahead)) > sameTime) ahead = at - now;
}

/** Called when the token is no longer valid. */
let onRefused = (): void => {};

export function onTokenRefused(then: () => void): void {
  onRefused = then;
}

/** Query parameters. One with a list of values is repeated. */
export type Query = Record<string, string | readonly string[] | undefined>;

export interface Call {
  /** A refused token does not end the session: the caller shows the error and keeps the form. */
  stay?: boolean;
  method?: string;
  query?: Query;
  json?: unknown;
  yaml?: string;
  /** One JSON value per line. */
  lines?: string;
  ifMatch?: number;
  signal?: AbortSignal;
  /** Milliseconds until the call fails. Default 15 s. */
  deadline?: number;
  /** A token for this call only. Default that of the session. */
  with?: string;
}

export async function call<T>(path: string, options: Call = {}): Promise<T> {
  const sent = token;
  const response = await send(path, options);
  // The response may arrive after the user has signed out, or in with another token, or has left the page.
  if (response.status === 401 && !options.stay && !options.signal?.aborted && sent !== "" && sent === token) onRefused();
  if (!response.ok) throw await problemOf(response);
  try {
    return (await response.json()) as T;
  } catch {
    throw new Problem(response.status, `The response of ${path} is not JSON. Is there a proxy in between?`);
  }
}

async function send(path: string, { method = "GET", query = {}, json, yaml, lines, ifMatch, signal, deadline = patience, with: own = token }: Call): Promise<Response> {
  const headers: Record<string, string> = {};
  if (own !== "") headers["Authorization"] = `Bearer ${own}`;
  if (yaml !== undefined) headers["Content-Type"] = "application/yaml";
  if (json !== undefined) headers["Content-Type"] = "application/json";
  if (lines !== undefined) headers["Content-Type"] = "application/x-ndjson";
  if (ifMatch !== undefined) headers["If-Match"] = `"${ifMatch}"`;
  const timeout = AbortSignal.timeout(deadline);
  const init: RequestInit = {
    method,
    headers,
    cache: "no-store",
    credentials: "omit",
    redirect: "error",
    signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
  };
  if (json !== undefined) init.body = JSON.stringify(json);
  if (yaml !== undefined) init.body = yaml;
  if (lines !== undefined) init.body = lines;
  try {
    const response = await fetch(path + queryOf(query), init);
    setClock(response.headers.get("Date"), Date.now());
    return response;
  } catch (err) {
    if (signal?.aborted) throw err;
    throw new Problem(0, timeout.aborted ? `The node has not responded for ${deadline / 1000} seconds.` : "The node does not respond.");
  }
}

function queryOf(query: Query): string {
  const given = Object.entries(query).flatMap(([name, value]) => (typeof value === "string" ? [value] : (value ?? [])).map((v) => [name, v]));
  return given.length === 0 ? "" : "?" + new URLSearchParams(given).toString();
}

async function problemOf(response: Response): Promise<Problem> {
  try {
    const p = (await response.json()) as { detail?: string; title?: string; errors?: FieldError[]; diff?: string; current?: Problem["current"] };
    return new Problem(response.status, p.detail ?? p.title ?? `The response was ${response.status}.`, p.errors, p.diff, p.current);
  } catch {
    return new Problem(response.status, `The response was ${response.status} ${response.statusText}`.trim() + ".");
  }
}

/** Reads /readyz, whose status is 503 with the same body while the node should get no requests. */
export async function readStatus(signal: AbortSignal): Promise<Status> {
  const response = await send("/readyz", { signal });
  if (response.status !== 200 && response.status !== 503) throw await problemOf(response);
  return (await response.json()) as Status;
}

export async function readMetrics(signal: AbortSignal): Promise<string> {
  const response = await send("/metrics", { signal });
  if (!response.ok) throw await problemOf(response);
  return response.text();
}

/** Returns the status of a path, 0 without a response. */
export async function statusOf(path: string): Promise<number> {
  try {
    return (await send(path, { method: "HEAD" })).status;
  } catch {
    return 0;
  }
}

export function isAbort(err: unknown): boolean {
  return err instanceof DOMException && err.name === "AbortError";
}
