package main

import (
	"context"
	"net/http"
	"net/url"
	"testing"
)

// A consoleView is a page of the console in some state, or a dialog.
type consoleView struct {
	name  string
	show  func(*consoleGallery, *testing.T)
	phone bool // there is also a picture of a small screen
}

// at opens a page and waits until an expression is true.
func at(path, shows string) func(*consoleGallery, *testing.T) {
	return func(g *consoleGallery, t *testing.T) {
		t.Helper()
		g.browser.visit(path)
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

// full returns a condition that a sparkline has enough points for a picture. They begin when the page is opened.
func full(line string) string {
	if *screenshots == "" {
		return ""
	}
	return ` && ` + line + `.getAttribute("d").split("L").length > 12`
}

// alertState returns the state in which a picture shows an alert. A condition has to hold for half a minute before its
// alert fires.
func alertState() string {
	if *screenshots == "" {
		return "firing|pending"
	}
	return "firing"
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
	clientShown = `document.querySelector("[data-table=keys] tbody") && document.querySelector("[data-series] canvas") && document.querySelector("[data-table=decisions] tbody")`
	dialogShown = `document.querySelector("dialog[open]")`
)

// consoleViews returns all views.
func consoleViews() []consoleView {
	return []consoleView{
		{name: "overview", show: at("/", `document.querySelector(".chart canvas") && document.querySelector("[data-table=top-rules] tbody")`), phone: true},
		{name: "enforcement-stop", show: then("/", `document.querySelector(".chart canvas")`, "main button", "Stop enforcing", dialogShown)},
		{name: "enforcement-off", show: func(g *consoleGallery, t *testing.T) {
			g.post(t, "/v1/enforcement:off", map[string]any{"rule": "demo-per-client", "for": "30m"})
			t.Cleanup(func() {
				g.post(t, "/v1/enforcement:on", map[string]any{"rule": "demo-per-client"})
				g.browser.see("no banner", `!document.querySelector("[data-banner=enforcement]")`) // else the next view has it
			})
			at("/", `document.querySelector("[data-banner=enforcement]") && document.querySelector(".chart canvas")`)(g, t)
		}},
		{name: "rules", show: at("/rules", `document.querySelectorAll("[data-table=rules] .spark").length > 2`)},
		{name: "rule", show: at("/rules/demo-per-client", ruleShown+` && document.querySelector("[data-table=top-clients] tbody")`), phone: true},
		{name: "rule-whatif", show: func(g *consoleGallery, t *testing.T) {
			at("/rules/demo-per-client", ruleShown)(g, t)
			g.browser.write("#whatif-limits", "3/s burst 12")
			g.browser.click("main button", "Try these limits")
			g.browser.see("the curve", `document.querySelector("[data-whatif] .chart canvas")`)
		}},
		{name: "rule-shadow", show: at("/rules/demo-search-shadow", ruleShown)},
		{name: "rule-new", show: at("/rules?new", `document.querySelector("#n-id")`)},
		{name: "rule-edit", show: then("/rules/demo-per-client", ruleShown, "main button", "Edit", `document.querySelector("#rule-text")`)},
		{name: "rule-delete", show: then("/rules/demo-per-client", ruleShown, "main button", "Delete", dialogShown)},
		{name: "rule-promote", show: then("/rules/demo-search-shadow", ruleShown, "main button", "Enforce", dialogShown)},
		{name: "clients", show: at("/clients", `document.querySelector("[data-table=top-clients] tbody")`), phone: true},
		{name: "client", show: then("/clients", `document.querySelector("[data-table=top-clients] tbody")`, "[data-table=top-clients] button", "Open", clientShown), phone: true},
		{name: "client-denials", show: func(g *consoleGallery, t *testing.T) {
			then("/clients", `document.querySelector("[data-table=top-clients] tbody")`, "[data-table=top-clients] button", "Open", clientShown)(g, t)
			g.browser.click("main button", "Show denials only")
			g.browser.see("denials", `document.querySelector("#decisions-title").textContent === "Last denials" && document.querySelector("[data-table=decisions] tbody")`)
		}},
		{name: "client-hash", show: func(g *consoleGallery, t *testing.T) {
			at("/clients", `document.querySelector("[data-table=top-clients] tbody")`)(g, t)
			g.browser.write("input[type=search]", "demo-key-mobile-app")
			g.browser.see("its hash", `document.querySelector("[data-table=top-clients] [data-label=Client]")?.textContent.startsWith("api_key=")`)
			g.browser.click("[data-table=top-clients] button", "Open")
			g.browser.see("its decisions", `document.querySelector("[data-table=decisions] tbody")`)
		}},
		{name: "client-block", show: func(g *consoleGallery, t *testing.T) {
			then("/clients", `document.querySelector("[data-table=top-clients] tbody")`, "[data-table=top-clients] button", "Open", `document.querySelector("[data-table=keys] tbody")`)(g, t)
			g.browser.click("main button", "Block")
			g.browser.see("the question", dialogShown)
		}},
		{name: "client-reset", show: func(g *consoleGallery, t *testing.T) {
			then("/clients", `document.querySelector("[data-table=top-clients] tbody")`, "[data-table=top-clients] button", "Open", `document.querySelector("[data-table=keys] tbody")`)(g, t)
			g.browser.click("main button", "Reset")
			g.browser.see("the question", dialogShown)
		}},
		{name: "registered", show: at("/clients?registered", `document.querySelector("[data-table=registered] tbody")`)},
		{name: "registered-new", show: then("/clients?registered", `document.querySelector("[data-table=registered] tbody")`, "main button", "Register", `document.querySelector("#c-id")`)},
		{name: "registered-import", show: then("/clients?registered", `document.querySelector("[data-table=registered] tbody")`, "main button", "Import", `document.querySelector("#import-file")`)},
		{name: "overrides", show: at("/overrides", `document.querySelector("[data-table=overrides] tbody")`)},
		{name: "override-new", show: at("/overrides?new", `document.querySelector("#o-limits")`)},
		{name: "override-end", show: then("/overrides", `document.querySelector("[data-table=overrides] tbody")`, "main button", "End", dialogShown)},
		{name: "explain", show: func(g *consoleGallery, t *testing.T) {
			at("/explain", `document.querySelector("#x-url")`)(g, t)
			g.browser.write("#x-url", "https://noisy.demo.test/search")
			g.browser.click("main button", "Explain")
			g.browser.see("the decision", `document.querySelector("[data-table=explained] tbody")`)
		}},
		{name: "fleet", show: at("/fleet", `document.querySelectorAll("[data-table=nodes] tbody tr").length === 2 && document.querySelector("dl.figures .figure").textContent !== "–"`)},
		{name: "stores", show: at("/stores", `document.querySelector("[data-table=shards] tbody") && document.querySelector("[data-figures] .figure").textContent !== "–"`+full(`document.querySelector("[data-table=shards] .spark .line")`))},
		{name: "alerts", show: at("/alerts", `document.querySelector("#firing-title")`)},
		{name: "webhooks", show: then("/webhooks", `document.querySelector("[data-table=webhooks] tbody")`, "main button", "Deliveries", `document.querySelector("#deliveries-title")`)},
		{name: "webhook-new", show: then("/webhooks", `document.querySelector("[data-table=webhooks] tbody")`, "main button", "New webhook", `document.querySelector("#w-url")`)},
		{name: "audit", show: at("/audit", `document.querySelector("[data-table=audit] tbody")`)},
		{name: "tokens", show: at("/tokens", `document.querySelector("[data-table=tokens] tbody")`)},
		{name: "token-new", show: at("/tokens?new", `document.querySelector("#t-id")`)},
		{name: "token-revoke", show: then("/tokens", `document.querySelector("[data-table=tokens] tbody")`, "main button", "Revoke", dialogShown)},
		{name: "keys", show: then("/", `document.querySelector(".chart canvas")`, "footer button", "Keys", dialogShown)},
		{name: "signin", show: func(g *consoleGallery, t *testing.T) {
			at("/", `document.querySelector(".chart canvas") && !`+dialogShown)(g, t)
			g.browser.click("header button", "Sign out")
			g.browser.see("nobody signed in", `document.querySelector("header a.button[href=\"/signin\"]")`)
			at("/signin", `document.querySelector("#token")`)(g, t)
			t.Cleanup(func() {
				g.browser.signIn(testAdminToken)
				g.browser.see("the overview", `document.querySelector("h1")?.textContent === "Overview"`)
			})
		}},
		// From here on, the store is down.
		{name: "store-down", show: func(g *consoleGallery, t *testing.T) {
			for _, server := range g.redis {
				server.Kill()
			}
			at("/", `document.querySelector(".chart canvas") && /^Failing open since .* on 2 of 2 nodes/.test(document.querySelector("[data-banner=degraded]")?.innerText)`)(g, t)
			g.browser.see("hundreds of degraded requests", `/^\d{3}/.test(document.querySelector("[data-figure=degraded] .figure-sum").textContent)`)
		}, phone: true},
		{name: "stores-down", show: at("/stores", `document.querySelector("[data-table=shards] .row-error") && document.querySelector("[data-table=store-nodes] tbody")`)},
		{name: "alerts-firing", show: at("/alerts", `/`+alertState()+`/.test(document.querySelector("[data-table=alerts] tbody")?.innerText)`)},
	}
}
