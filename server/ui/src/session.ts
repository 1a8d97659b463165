// Who is signed in. The token is kept for this tab alone, and never in a cookie: no other page's request can bring it along.

import { call, Problem, setToken, statusOf, type WhoAmI } from "./api.ts";

const tokenName = "headgate-token";
const namespaceName = "headgate-namespace";

/** What this node offers: a rules service to sign in to, one whose database is away, or none. */
export type Service = "there" | "away" | "none";

export interface Session {
  service: Service;
  /** Undefined while nobody is signed in. */
  who: WhoAmI | undefined;
  namespace: string;
  /** Why a token that was kept is of no use any more. */
  notice: string;
}

export const start: Session = { service: "there", who: undefined, namespace: "default", notice: "" };

/** Finds out what there is, with the token of this tab if it has one. */
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

/** Everybody may ask for the description of the API, where there is one. */
async function serviceHere(): Promise<Service> {
  const status = await statusOf("/openapi.json");
  if (status === 404) return "none";
  return status === 503 ? "away" : "there";
}

/** Signs in, or throws a Problem that says why not. */
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
  return { service: "there", who, namespace: kept !== null && covers(who, kept) ? kept : first(who), notice: "" };
}

export function covers(who: WhoAmI, namespace: string): boolean {
  return who.namespaces.includes("*") || who.namespaces.includes(namespace);
}

function first(who: WhoAmI): string {
  return covers(who, "default") ? "default" : (who.namespaces[0] ?? "default");
}

/** What who is signed in may do here, besides looking. */
export interface Powers {
  rules: boolean;
  overrides: boolean;
  counters: boolean;
  /** Stop enforcing rules for a time. */
  enforcement: boolean;
  /** Tokens and the audit. */
  all: boolean;
}

export function powers({ who }: Session): Powers {
  const edits = who?.role === "editor" || who?.role === "admin";
  return { rules: edits && !who.read_only, overrides: edits && !who.no_overrides, counters: edits, enforcement: edits && !who.no_overrides, all: who?.role === "admin" };
}

export function keepNamespace(namespace: string): void {
  sessionStorage.setItem(namespaceName, namespace);
}

/** What else is to be forgotten: what somebody wrote in a form is nobody else's business. */
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
