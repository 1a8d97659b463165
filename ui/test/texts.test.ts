import assert from "node:assert/strict";
import { test } from "node:test";

import { clock, setClock } from "../src/api.ts";
import { ago, count, plural, rate, short, span, wait } from "../src/format.ts";
import { pairs } from "../src/pairs.ts";
import { placeOf } from "../src/route.ts";
import { yaml } from "../src/yaml.ts";

const plain = (text: string): string => text.replaceAll("\u202f", " ");

test("figures have the unit that fits", () => {
  assert.deepEqual([0, 0.42, 9.96, 48.125, 999.6, 1_240, 12_300, 61_000, 5_400_000, 200_000_000].map((ms) => plain(span(ms))), [
    "0 ms", "0.4 ms", "10 ms", "48 ms", "1 s", "1.2 s", "12 s", "1 min", "2 h", "2 d",
  ]);
  assert.deepEqual([0, 7, 1234567].map((n) => plain(count(n))), ["0", "7", "1 234 567"]);
  assert.deepEqual([999_999_999_999, 2 ** 53 - 1, 1.8e18].map((n) => plain(count(n))), ["999 999 999 999", "9.0e15", "1.8e18"]);
  assert.deepEqual([0, 0.01, 2.34, 1234].map((n) => plain(rate(n))), ["0", "< 0.1", "2.3", "1 234"]);
  assert.deepEqual([plural(1, "node"), plural(2, "node")], ["1 node", "2 nodes"]);
});

test("times are said as people do", () => {
  assert.deepEqual([-1, 0, 1500].map((ms) => plain(wait(ms))), ["never", "now", "in 1.5 s"]);
  const now = Date.parse("2026-11-15T12:00:10Z");
  assert.deepEqual(["2026-11-15T12:00:10.2Z", "2026-11-15T12:00:00.4Z", undefined, "nonsense"].map((t) => plain(ago(t, now))), ["now", "10 s ago", "–", "–"]);
});

test("a rule is written as in a rules file, and what could be misread as JSON", () => {
  const rule = {
    id: "search", description: "it's <b>: #1", when: { path: "/search/**", "header.x-plan": ["gold", "yes"] }, key: ["user"],
    limits: ["10/s burst 20", "1000/h sliding-window"], cost: 5, enabled: false, overrides: [{ when: { user: "acme" }, limits: ["100/s"] }, { when: { ip: "10.0.0.0/8" }, unlimited: true }],
  };
  assert.equal(
    yaml(rule),
    `id: search
description: "it's <b>: #1"
when: {path: /search/**, header.x-plan: [gold, "yes"]}
key: [user]
limits: [10/s burst 20, 1000/h sliding-window]
cost: 5
enabled: false
overrides:
  - {when: {user: acme}, limits: [100/s]}
  - {when: {ip: "10.0.0.0/8"}, unlimited: true}
`,
  );
  for (const text of ["", "no", "Null", "12", "1e3", "0x1f", "*x", "- a", "a: b", "a #b", " a", "2026-11-15", "~", "?", "{a", "@b", "%c", "&d", "!e", "|"]) {
    assert.equal(yaml({ id: text }), `id: ${JSON.stringify(text)}\n`);
  }
});

test("lines of names and values are read", () => {
  assert.deepEqual(pairs("user = alice\n\npath=/a=b\nalone", "="), { user: "alice", path: "/a=b", alone: "" });
  assert.deepEqual(pairs("X-API-Key: a:b\n", ":"), { "X-API-Key": "a:b" });
});

test("paths lead to pages, and others to nothing", () => {
  assert.deepEqual(["/", "/rules", "/rules/a%2Fb", "/rules/%zz", "/rules/a/b", "/explain", "/clients", "/signin", "/v1/rules", "/index.html"].map((p) => placeOf(p, "").page), [
    "fleet", "rules", "rules", "nothing", "nothing", "explain", "clients", "signin", "nothing", "nothing",
  ]);
  assert.equal(placeOf("/rules/a%2Fb", "").rule, "a/b");
});

test("what a node says of itself is cut where it is long", () => {
  assert.equal(short("eu"), "eu");
  assert.equal(short("x".repeat(5000)), "x".repeat(120) + "…");
  assert.equal(short("🚰".repeat(4), 3), "🚰🚰🚰…");
  assert.equal(short("🚰🚰🚰", 3), "🚰🚰🚰");
});

test("times are told by the clock of the node, whatever the reader's says", () => {
  const hour = 3_600_000;
  const off = (): number => Math.round((clock() - Date.now()) / 1_000);
  setClock(null, Date.now());
  assert.equal(off(), 0);
  const now = Date.now();
  setClock(new Date(now + hour).toUTCString(), now);
  assert.ok(Math.abs(off() - 3_600) <= 1, `it is ${off()} s ahead`);
  const was = off();
  setClock(new Date(now + hour - 2_000).toUTCString(), now); // whole seconds, and the way
  assert.equal(off(), was);
  setClock(new Date(now).toUTCString(), now);
  assert.ok(Math.abs(off()) <= 1, `it is ${off()} s ahead`);
});
