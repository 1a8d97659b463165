// The session. The token is stored for this tab only and never in a cookie, so that requests of other pages cannot carry it.

import { call, Problem, setToken, statusOf, type WhoAmI } from "./api.ts";

const tokenName = "headgate-token";
const namespaceName = "headgate-namespace";

/** Whether this node has a rules service, one whose database is unreachable, or none. */
export type Service = "available" | "unavailable" | "none";

export interface Session {
  service: Service;
  /** Undefined if not signed in. */
  who: WhoAmI | undefined;
  namespace: string;
  /** Why the stored token is no longer valid. */
  notice: string;
}

export const start: Session = { service: "available", who: undefined, namespace: "default", notice: "" };

/** Resumes the session of this tab, if it has one. */
export async function resume(): Promise<Session> {
  const token = sessionStorage.getItem(tokenName) ?? "";
  if (token !== "") {
    try {
      return await signIn(token);
    } catch (err) {
      if (!(err instanceof Problem) || err.status === 401 || err.status === 403) forget();
      if (err instanceof Problem && err.status === 401) return { ...start, notice: "The token is no longer valid. Sign in again." };
    }
  }
  return { ...start, service: await serviceHere() };
}

/** The description of the API needs no token. */
async function serviceHere(): Promise<Service> {
  const status = await statusOf("/openapi.json");
  if (status === 404) return "none";
  return status === 503 ? "unavailable" : "available";
}

/** Signs in, or throws a Problem. */
export async function signIn(token: string): Promise<Session> {
  if (!/^[\x21-\x7e]+$/.test(token)) throw new Problem(401, "This is not a token: tokens have no spaces and only ASCII characters.");
  setToken(token);
  let who: WhoAmI;
  try {
    who = await call<WhoAmI>("/v1/whoami", { stay: true });
  } catch (err) {
    setToken("");
    throw err;
  }
  if (who.role === "node") {
    setToken("");
    throw new Problem(403, "This token has the role node, which cannot use the console. Use a token of a viewer, an editor or an admin.");
  }
  sessionStorage.setItem(tokenName, token);
  const kept = sessionStorage.getItem(namespaceName);
  return { service: "available", who, namespace: kept !== null && covers(who, kept) ? kept : first(who), notice: "" };
}

export function covers(who: WhoAmI, namespace: string): boolean {
  return who.namespaces.includes("*") || who.namespaces.includes(namespace);
}

function first(who: WhoAmI): string {
  return covers(who, "default") ? "default" : (who.namespaces[0] ?? "default");
}

/** What the user may do, besides reading. */
export interface Powers {
  rules: boolean;
  overrides: boolean;
  counters: boolean;
  /** Stop enforcing rules for a time: on all nodes, only on the node that serves the console, or not. */
  enforcement: "fleet" | "node" | undefined;
  /** Tokens, webhooks and the audit log. */
  all: boolean;
}

/** A node without a rules service of its own asks for a token when a switch is used. */
function switchesOf(service: Service, who: WhoAmI | undefined): Powers["enforcement"] {
  if (service === "none") return "node";
  if (who?.role !== "editor" && who?.role !== "admin") return undefined;
  return who.no_overrides ? "node" : "fleet";
}

export function powers({ service, who }: Session): Powers {
  const edits = who?.role === "editor" || who?.role === "admin";
  return { rules: edits && !who.read_only, overrides: edits && !who.no_overrides, counters: edits, enforcement: switchesOf(service, who), all: who?.role === "admin" };
}

export function keepNamespace(namespace: string): void {
  sessionStorage.setItem(namespaceName, namespace);
}

/** Functions that clear form input when the user signs out. */
const forgetters: (() => void)[] = [];

export function onForget(then: () => void): void {
  forgetters.push(then);
}

export function forget(): void {
  setToken("");
  for (const then of forgetters) then();
  sessionStorage.removeItem(tokenName);
  sessionStorage.removeItem(namespaceName);
}
