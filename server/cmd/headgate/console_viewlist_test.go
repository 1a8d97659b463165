package main

import (
	"context"
	"net/http"
	"net/url"
	"testing"
)

// A consoleView is a page of the console in some state, or a dialog.
type consoleView struct {
	name string
	show func(*consoleGallery, *testing.T)
}

// at opens a page and waits until an expression is true.
func at(path, shows string) func(*consoleGallery, *testing.T) {
	return func(g *consoleGallery, t *testing.T) {
		t.Helper()
		g.browser.open(path)
		g.browser.see(path, shows)
	}
}

// then opens a page, clicks a button on it and waits until an expression is true.
func then(path, shows, button, text, shown string) func(*consoleGallery, *testing.T) {
	return func(g *consoleGallery, t *testing.T) {
		t.Helper()
		at(path, shows)(g, t)
		g.browser.click(button, text)
		g.browser.see(text, shown)
	}
}

// post calls the rules service.
func (g *consoleGallery) post(t *testing.T, path string, body any) {
	t.Helper()
	// It is also called when the context of a test has ended.
	if err := g.at.Do(context.Background(), http.MethodPost, path, url.Values{"note": {"customers are blocked"}}, body, nil); err != nil {
		t.Fatal(err)
	}
}

const (
	ruleShown   = `document.querySelector("pre.text") && document.querySelector(".chart canvas") && document.querySelector(".history")`
	dialogShown = `document.querySelector("dialog[open]")`
)

var consoleViews = []consoleView{
	{"overview", at("/", `document.querySelector(".chart canvas") && document.querySelector("[data-table=top-rules] tbody")`)},
	{"enforcement-stop", then("/", `document.querySelector(".chart canvas")`, "main button", "Stop enforcing", dialogShown)},
	{"enforcement-off", func(g *consoleGallery, t *testing.T) {
		g.post(t, "/v1/enforcement:off", map[string]any{"rule": "demo-per-client", "for": "30m"})
		t.Cleanup(func() { g.post(t, "/v1/enforcement:on", map[string]any{"rule": "demo-per-client"}) })
		at("/", `document.querySelector("[data-banner=enforcement]") && document.querySelector(".chart canvas")`)(g, t)
	}},
	{"rules", at("/rules", `document.querySelectorAll("[data-table=rules] .spark").length > 2`)},
	{"rule", at("/rules/demo-per-client", ruleShown+` && document.querySelector("[data-table=top-clients] tbody")`)},
	{"rule-shadow", at("/rules/demo-search-shadow", ruleShown)},
	{"rule-new", at("/rules?new", `document.querySelector("#n-id")`)},
	{"rule-edit", then("/rules/demo-per-client", ruleShown, "main button", "Edit", `document.querySelector("#rule-text")`)},
	{"rule-delete", then("/rules/demo-per-client", ruleShown, "main button", "Delete", dialogShown)},
	{"rule-promote", then("/rules/demo-search-shadow", ruleShown, "main button", "Enforce", dialogShown)},
	{"clients", at("/clients", `document.querySelector("[data-table=top-clients] tbody")`)},
	{"client", then("/clients", `document.querySelector("[data-table=top-clients] tbody")`, "[data-table=top-clients] button", "Open", `document.querySelector("[data-table=keys] tbody")`)},
	{"client-block", func(g *consoleGallery, t *testing.T) {
		then("/clients", `document.querySelector("[data-table=top-clients] tbody")`, "[data-table=top-clients] button", "Open", `document.querySelector("[data-table=keys] tbody")`)(g, t)
		g.browser.click("main button", "Block")
		g.browser.see("the question", dialogShown)
	}},
	{"client-reset", func(g *consoleGallery, t *testing.T) {
		then("/clients", `document.querySelector("[data-table=top-clients] tbody")`, "[data-table=top-clients] button", "Open", `document.querySelector("[data-table=keys] tbody")`)(g, t)
		g.browser.click("main button", "Reset")
		g.browser.see("the question", dialogShown)
	}},
	{"registered", at("/clients?registered", `document.querySelector("[data-table=registered] tbody")`)},
	{"registered-new", then("/clients?registered", `document.querySelector("[data-table=registered] tbody")`, "main button", "Register", `document.querySelector("#c-id")`)},
	{"registered-import", then("/clients?registered", `document.querySelector("[data-table=registered] tbody")`, "main button", "Import", `document.querySelector("#import-file")`)},
	{"overrides", at("/overrides", `document.querySelector("[data-table=overrides] tbody")`)},
	{"override-new", at("/overrides?new", `document.querySelector("#o-limits")`)},
	{"override-end", then("/overrides", `document.querySelector("[data-table=overrides] tbody")`, "main button", "End", dialogShown)},
	{"explain", func(g *consoleGallery, t *testing.T) {
		at("/explain", `document.querySelector("#x-url")`)(g, t)
		g.browser.write("#x-url", "https://noisy.demo.test/search")
		g.browser.click("main button", "Explain")
		g.browser.see("the decision", `document.querySelector("[data-table=explained] tbody")`)
	}},
	{"fleet", at("/fleet", `document.querySelectorAll("[data-table=nodes] tbody tr").length === 2`)},
	{"stores", at("/stores", `document.querySelector("[data-table=shards] tbody")`)},
	{"webhooks", then("/webhooks", `document.querySelector("[data-table=webhooks] tbody")`, "main button", "Deliveries", `document.querySelector("#deliveries-title")`)},
	{"webhook-new", then("/webhooks", `document.querySelector("[data-table=webhooks] tbody")`, "main button", "New webhook", `document.querySelector("#w-url")`)},
	{"audit", at("/audit", `document.querySelector("[data-table=audit] tbody")`)},
	{"tokens", at("/tokens", `document.querySelector("[data-table=tokens] tbody")`)},
	{"token-new", at("/tokens?new", `document.querySelector("#t-id")`)},
	{"token-revoke", then("/tokens", `document.querySelector("[data-table=tokens] tbody")`, "main button", "Revoke", dialogShown)},
	{"keys", then("/", `document.querySelector(".chart canvas")`, "footer button", "Keys", dialogShown)},
	{"signin", at("/signin", `document.querySelector("#token")`)},
}
