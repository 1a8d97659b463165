import assert from "node:assert/strict";
import { test } from "node:test";

import { clock, setClock, type WhoAmI } from "../src/api.ts";
import { lineDiff } from "../src/linediff.ts";
import { asFile, given, splitList } from "../src/draft.ts";
import { ago, count, localTime, offTimes, plural, rate, sentence, short, span, wait } from "../src/format.ts";
import { pairs } from "../src/pairs.ts";
import { menuOf, placeOf } from "../src/route.ts";
import { powers, start } from "../src/session.ts";
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

test("a warning of a node is shown as a sentence", () => {
  assert.deepEqual(["requests share limits", "Done."].map(sentence), ["Requests share limits.", "Done."]);
});

test("times are said as people do", () => {
  assert.deepEqual([-1, 0, 1500].map((ms) => plain(wait(ms))), ["never", "now", "in 1.5 s"]);
  const now = Date.parse("2026-11-15T12:00:10Z");
  assert.deepEqual(["2026-11-15T12:00:10.2Z", "2026-11-15T12:00:00.4Z", undefined, "nonsense"].map((t) => plain(ago(t, now))), ["now", "10 s ago", "–", "–"]);
});

test("a switch of enforcement says since when and until when it is off", () => {
  const at = (hours: number): string => new Date(2026, 10, 15, hours, 5).toISOString();
  const now = Date.parse(at(12));
  assert.equal(plain(offTimes({ since: at(11), expires: at(13) }, now)), "It has been off since 11:05, and is on again in 1 h, at 13:05");
  assert.equal(plain(offTimes({ since: at(-2), expires: at(26) }, now)), "It has been off since 2026-11-14 22:05, and is on again in 14 h, at 2026-11-16 02:05");
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
  assert.deepEqual(["/", "/rules", "/rules/a%2Fb", "/rules/%zz", "/rules/a/b", "/explain", "/clients", "/overrides", "/fleet", "/stores", "/webhooks", "/audit", "/tokens", "/signin", "/v1/rules", "/index.html"].map((p) => placeOf(p, "").page), [
    "overview", "rules", "rules", "nothing", "nothing", "explain", "clients", "overrides", "fleet", "stores", "webhooks", "audit", "tokens", "signin", "nothing", "nothing",
  ]);
  assert.equal(placeOf("/rules/a%2Fb", "").rule, "a/b");
});

test("pages are shown to who has a use for them", () => {
  const menu = (who: WhoAmI | undefined): string => menuOf({ ...start, who }).map((m) => m.key).join("");
  assert.equal(menu(undefined), "hrcoefsl");
  assert.equal(menu({ id: "v", role: "viewer", namespaces: ["*"] }), "hrcoefsl");
  assert.equal(menu({ id: "a", role: "admin", namespaces: ["*"] }), "hrcoefslwat");
  assert.equal(menu({ id: "a", role: "admin", namespaces: ["*"], no_overrides: "the rules are those of a file" }), "hrcefslwat");
});

test("who may change what is what the rules service says", () => {
  const may = (who: WhoAmI | undefined): string => JSON.stringify(Object.values(powers({ ...start, who })));
  assert.equal(may(undefined), "[false,false,false,null,false]");
  assert.equal(may({ id: "v", role: "viewer", namespaces: ["*"] }), "[false,false,false,null,false]");
  assert.equal(may({ id: "e", role: "editor", namespaces: ["*"] }), '[true,true,true,"fleet",false]');
  assert.equal(may({ id: "a", role: "admin", namespaces: ["*"], read_only: "they are those of a file", no_overrides: "as above" }), '[false,false,true,"node",true]');
  // A node without a rules service of its own asks for a token when a switch is used.
  assert.equal(powers({ ...start, service: "none" }).enforcement, "node");
});

test("how a text becomes another is told by lines", () => {
  assert.equal(lineDiff("a\nb\nc\n", "a\nx\nc\nd\n"), " a\n-b\n+x\n c\n+d\n");
  assert.equal(lineDiff("", "a\n"), "+a\n");
  assert.equal(lineDiff("a\nb\n", ""), "-a\n-b\n");
  assert.equal(lineDiff("a\n", "a\n"), " a\n");
  assert.equal(lineDiff("", ""), "");
});

test("what people write in fields becomes what rules have", () => {
  assert.deepEqual(splitList(" 10/s burst 20,\n 1000/h ,,"), ["10/s burst 20", "1000/h"]);
  assert.deepEqual(given({ a: "", b: [], c: {}, d: false, e: null, f: "x", g: ["y"], h: true, i: 0 }), { f: "x", g: ["y"], h: true, i: 0 });
  assert.equal(asFile("# why\nid: a\nlimits: [1/s]"), "rules:\n  -\n    # why\n    id: a\n    limits: [1/s]");
  assert.equal(new Date(localTime(Date.parse("2026-11-20T17:30:29Z"))).toISOString(), "2026-11-20T17:30:00.000Z");
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
