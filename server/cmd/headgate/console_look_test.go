package main

import "testing"

// tooPale is JavaScript that lists texts whose contrast with what is behind them is below 4.5 (WCAG 2.2, 1.4.3).
const tooPale = `(() => {
  const rgb = (c) => { const m = c.match(/[\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
  const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] === 1) return c; if (c[3] > 0) throw "half transparent"; } return [255, 255, 255, 1]; };
  const found = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let texts = 0;
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !e.checkVisibility() || e.closest(":disabled, noscript, script, style")) continue;
    texts++;
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) found.add(((a + 0.05) / (b + 0.05)).toFixed(2) + " " + walk.currentNode.data.trim().slice(0, 40));
  }
  if (texts < 15) found.add("only " + texts + " texts");
  return [...found];
})()`

var consolePages = []struct{ path, shows string }{
	{"/", `document.querySelector("h1")?.textContent === "Overview"`},
	{"/fleet", `document.querySelector("[data-table=sync]")`},
	{"/stores", `document.querySelector("h1")?.textContent === "Stores"`},
	{"/webhooks", `document.querySelector("main .empty")`},
	{"/rules", `document.querySelector("[data-table=rules]")`},
	{"/rules/told", `document.querySelector(".diff")`},
	{"/explain", `document.querySelector("#x-url")`},
	{"/clients", `document.querySelector("#k-value-0")`},
	{"/signin", `document.querySelector("#token")`},
}

func (f *consoleFleet) readable(t *testing.T) {
	b := f.browser
	grounds := map[string]string{}
	for _, p := range consolePages {
		b.open(p.path)
		b.see(p.path, p.shows)
		for _, scheme := range []string{"light", "dark"} {
			b.colours(scheme)
			for _, pale := range ask[[]string](b, tooPale) {
				t.Errorf("%s in %s: contrast %s", p.path, scheme, pale)
			}
			grounds[scheme] = ask[string](b, "getComputedStyle(document.body).backgroundColor")
		}
	}
	if grounds["light"] == grounds["dark"] {
		t.Errorf("both are %s", grounds["light"])
	}
	// The switch counts before what the system prefers, and is remembered.
	b.click(".theme", "")
	b.see("light", `document.documentElement.dataset.theme === "light"`)
	b.open("/rules")
	b.see("the rules", `document.querySelector("[data-table=rules]")`)
	if got := ask[string](b, "getComputedStyle(document.body).backgroundColor"); got != grounds["light"] {
		t.Errorf("got %s after light was chosen, want %s", got, grounds["light"])
	}
	b.click(".theme", "")
	b.see("dark", `document.documentElement.dataset.theme === "dark"`)
	b.click(".theme", "")
	b.see("what the system prefers", `document.documentElement.dataset.theme === undefined`)
	b.colours("light")
}

func (f *consoleFleet) narrow(t *testing.T) {
	b := f.browser
	b.width(360)
	defer b.width(1280)
	for _, p := range consolePages {
		b.open(p.path)
		b.see(p.path, p.shows)
		if got := ask[int](b, "document.documentElement.scrollWidth"); got > 360 {
			t.Errorf("%s is %d wide on a screen of 360", p.path, got)
		}
		for _, wrong := range ask[[]string](b, shapeless) {
			t.Errorf("%s: %s", p.path, wrong)
		}
		b.see("the menu's entry of "+p.path, menuShowsEntry)
	}
}

// menuShowsEntry is JavaScript that reports whether the menu is scrolled to the entry of this page, as soon as it is
// drawn.
const menuShowsEntry = `(() => {
  const entry = document.querySelector("nav a[aria-current]"), at = entry?.getBoundingClientRect();
  return !at || at.left >= 0 && at.right <= innerWidth;
})()`

// shapeless is JavaScript that lists what is missing from tables whose rows are cards: who does not see them is told
// what each cell is by its role and its column's head, who does by the label before it.
const shapeless = `[...document.querySelectorAll("table")].flatMap((table) => {
  const wrong = [];
  const heads = [...table.querySelectorAll("thead [role=columnheader]")].map((e) => e.textContent.trim());
  if (table.getAttribute("role") !== "table" || heads.length < 3 || getComputedStyle(table.tHead).display === "none") wrong.push("no table with heads");
  if (!table.getAttribute("aria-label") && !document.getElementById(table.getAttribute("aria-labelledby"))) wrong.push("a table without a name");
  for (const cell of table.querySelectorAll("tbody :is(th, td)")) {
    const label = cell.dataset.label;
    const role = cell.tagName === "TH" ? "rowheader" : "cell";
    if (!heads.includes(label) || cell.getAttribute("role") !== role) wrong.push("a cell of " + label + " as " + cell.getAttribute("role"));
    if (role === "cell" && getComputedStyle(cell, "::before").content !== JSON.stringify(label)) wrong.push(label + " is not said");
  }
  return wrong.map((w) => table.dataset.table + ": " + w);
})`
