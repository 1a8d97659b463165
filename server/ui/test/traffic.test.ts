import assert from "node:assert/strict";
import { test } from "node:test";

import { readCurl } from "../src/curl.ts";
import { percent } from "../src/format.ts";
import { degradedOf } from "../src/health.ts";
import type { FleetNode, Status } from "../src/api.ts";
import { clientName, coarse, deniedPercent, denying, isShortened, rateNow, readTraffic, seconds, shownValue, trafficOf, type RuleSeries, type Traffic } from "../src/traffic.ts";

test("rates are of the latest ten seconds, or the latest step", () => {
  assert.equal(rateNow([100, ...new Array<number>(10).fill(2)], 1), 2);
  assert.equal(rateNow([600, 60], 60), 1);
  assert.equal(rateNow([], 1), 0);
  assert.deepEqual(["1s", "1m", "10m", "1h30m", ""].map(seconds), [1, 60, 600, 5400, 1]);
});

test("small pictures keep the sum and the latest steps", () => {
  assert.deepEqual(coarse([1, 2, 3, 4, 5], 2), [3, 12]);
  assert.deepEqual(coarse([1, 2], 60), [1, 2]);
});

test("shares are in percent, and a dash without requests", () => {
  assert.deepEqual([undefined, 0, 0.04, 3.44, 97.6, 99.95, 100].map(percent), ["–", "0\u202f%", "< 0.1\u202f%", "3.4\u202f%", "98\u202f%", "> 99.9\u202f%", "100\u202f%"]);
  assert.equal(deniedPercent(0, 0), undefined);
  assert.equal(deniedPercent(8, 2), 25);
});

test("clients have names, and shortened secrets are recognised", () => {
  assert.equal(clientName({ user: "noisy", ip: "10.0.0.1" }), "user=noisy, ip=10.0.0.1");
  assert.equal(clientName({}), "all clients together");
  assert.equal(isShortened({ api_key: "sk_l…#5f1c09d2ab34e871" }), true);
  assert.equal(isShortened({ user: "noisy" }), false);
});

test("pages ask for the rules that they show, and for the order in which they show them", async (t) => {
  const called: string[] = [];
  t.mock.method(globalThis, "fetch", async (input: string) => {
    called.push(input);
    return new Response("{}");
  });
  await readTraffic({ namespace: "default", window: "10m", rules: ["a", "b&c"] });
  await readTraffic({ namespace: "default", window: "24h", order: "denied", most: 9 });
  await readTraffic({ namespace: "default", window: "1h", rule: "a" });
  assert.deepEqual(called, [
    "/v1/traffic?namespace=default&window=10m&rule=a&rule=b%26c",
    "/v1/traffic?namespace=default&window=24h&order=denied&limit=9",
    "/v1/traffic?namespace=default&window=1h&rule=a",
  ]);
});

test("the rules that deny most are first, and requests without a rule are none", () => {
  const rule = (name: string, denied: number, shadow = 0): RuleSeries => ({ rule: name, requests: [9], allowed: [9], denied: [denied], delayed: [0], shadow_denied: [shadow], degraded: [0] });
  const traffic = { rules: [rule("(none)", 0), rule("quiet", 0), rule("trial", 0, 5), rule("strict", 2), rule("search", 3)] } as Traffic;
  assert.deepEqual(denying(traffic, 3).map((r) => r.rule), ["search", "strict", "trial"]);
});

test("curl commands become requests", () => {
  assert.deepEqual(readCurl(`curl -i -X PUT -H 'X-API-Key: a b' --header "Accept: text/html" \\\n  https://api.example.com/a?b=c`), {
    method: "PUT", url: "https://api.example.com/a?b=c", headers: "X-API-Key: a b\nAccept: text/html", ignored: [],
  });
  assert.deepEqual(readCurl(`/usr/bin/curl --data '{"a":"it'"'"'s"}' -uname:word localhost:8080/x`), {
    method: "POST", url: "http://localhost:8080/x", headers: "Authorization: Basic bmFtZTp3b3Jk", ignored: [],
  });
  assert.equal(readCurl("curl -I example.com").method, "HEAD");
  assert.equal(readCurl("curl -G -d q=1 example.com").method, "GET");
  assert.equal(readCurl("curl -so /dev/null -m 3 example.com").url, "http://example.com");
  assert.throws(() => readCurl("wget example.com"), /not a curl command/);
  assert.throws(() => readCurl("curl -H 'a: b"), /not closed/);
  assert.throws(() => readCurl("curl -s"), /no URL/);
});

test("what a curl command has and the request has not is said", () => {
  const { headers, ignored } = readCurl(`curl -K secrets.cfg -H @headers.txt -H 'X-Empty;' -H "X-Plan: gold" --frobnicate -n https://api.example.com/ https://other.example.com/`);
  assert.equal(headers, "X-Plan: gold");
  assert.deepEqual(ignored, [
    "-K secrets.cfg: the file is not read",
    "-H @headers.txt: the file is not read",
    "-H X-Empty;: a header is written as Name: value",
    "--frobnicate: this option is not known",
    "-n: the file .netrc is not read",
    "https://other.example.com/: a second URL",
  ]);
});

test("pages show only the first characters of secrets", () => {
  assert.equal(shownValue("api_key", "sk-live-abcdefghijklmnop"), "sk-l…");
  assert.equal(shownValue("header.x-token", "short"), "…");
  assert.equal(shownValue("api_key", "sk-l…#5f1c09d2ab34e871"), "sk-l…#5f1c09d2ab34e871");
  assert.equal(shownValue("user", "a user with a long name"), "a user with a long name");
});

test("a node that does not reach its store is degraded, and nothing else is", () => {
  const now = Date.parse("2026-11-18T12:00:00Z");
  const node = (id: string, store: string): FleetNode => ({ id, namespace: "default", version: "1", revision: 1, lag_ms: 0, store, started: "", seen: "2026-11-18T11:59:58Z" });
  const here = (up: boolean): Status => ({ state: "ready", degraded: !up, rules: { source: "", revision: 1, count: 1 }, store: { kind: "redis", shards: [{ name: "a:1", up, since: "2026-11-18T11:58:00Z", error: up ? "" : "refused" }] } });
  assert.equal(degradedOf(here(true), [node("a", "ok"), node("b", "ok")], now), undefined);
  assert.deepEqual(degradedOf(here(true), [node("a", "ok"), node("b", "redis: refused")], now), { nodes: 1, of: 2, since: undefined, reason: "redis: refused" });
  assert.deepEqual(degradedOf(here(false), [node("a", "ok"), node("b", "ok")], now), { nodes: 1, of: 2, since: "2026-11-18T11:58:00Z", reason: "refused" });
  assert.equal(degradedOf(here(true), [{ ...node("a", "redis: refused"), seen: "2026-11-18T11:50:00Z" }], now), undefined);
});

test("the chart of a client leaves out a step in progress", () => {
  const series = { step: "1m", start: "2026-11-18T12:00:00Z", requests: [10, 20, 30, 40, 5], denied: [0, 5, 0, 0, 1] };
  const client = { client: { user: "a" }, rule: "r", requests: 105, allowed: 99, denied: 6, series };
  const at = Date.parse("2026-11-18T12:04:10Z");
  assert.deepEqual(trafficOf(client, at)?.total.allowed, [10, 15, 30, 40]);
  assert.deepEqual(trafficOf(client, at + 60_000)?.total.requests, series.requests);
  const shadow = trafficOf({ ...client, shadow: true }, at)?.total;
  assert.deepEqual([shadow?.allowed, shadow?.denied, shadow?.shadow_denied], [[10, 20, 30, 40], [0, 0, 0, 0], [0, 5, 0, 0]]);
  assert.equal(trafficOf({ ...client, series: { ...series, requests: [0, 0, 0, 0, 5] } }, at)?.total.requests.length, 5);
});
