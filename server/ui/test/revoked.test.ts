import assert from "node:assert/strict";
import { test } from "node:test";

import { onTokenRefused, setToken, type WhoAmI } from "../src/api.ts";
import { readState } from "../src/health.ts";
import { readTraffic } from "../src/traffic.ts";

const json = (status: number, body: unknown): Response => new Response(JSON.stringify(body), { status });
const down = { store: { kind: "redis", shards: [{ name: "127.0.0.1:6379", up: false, error: "gone" }] } };
const traffic = { step: "1s", start: "2030-01-01T00:00:00Z", rules: [{ rule: "search", degraded: [1, 1] }], total: { degraded: [1, 1] } };

test("the banner keeps what a user writes when the token is revoked", async (t) => {
  let refused = 0;
  onTokenRefused(() => refused++);
  setToken("revoked");
  const who = { id: "ada", role: "editor", namespaces: ["default"] } as WhoAmI;
  const { signal } = new AbortController();
  for (const revokedAt of ["/v1/", "/v1/traffic", "/v1/rules/"]) {
    t.mock.method(globalThis, "fetch", async (input: string) => {
      if (input.startsWith("/readyz")) return json(503, down);
      return input.startsWith(revokedAt) ? json(401, { detail: "The token is invalid." }) : json(200, { ...traffic, nodes: [], alerts: [], servers: [], off: [], rule: {} });
    });
    const state = await readState(who, "default", signal);
    assert.equal(state.degraded?.of, 1);
    assert.equal(refused, 0, `${revokedAt}: the session has ended`);
  }
});

test("a response to a page that the user has left does not end the session", async (t) => {
  let refused = 0;
  onTokenRefused(() => refused++);
  setToken("revoked");
  const page = new AbortController();
  t.mock.method(globalThis, "fetch", async () => {
    page.abort();
    return json(401, { detail: "The token is invalid." });
  });
  await assert.rejects(readTraffic({ namespace: "default", window: "1m", signal: page.signal }));
  assert.equal(refused, 0);
  await assert.rejects(readTraffic({ namespace: "default", window: "1m" }));
  assert.equal(refused, 1, "a page in use asks for another token");
});
