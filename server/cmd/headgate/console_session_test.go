package main

import (
	"net/http"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// revoked takes a token away from somebody who is signed in with it.
func (f *consoleFleet) revoked(t *testing.T) {
	b := f.browser
	var made struct{ Secret string }
	token := map[string]any{"id": "passing", "role": "editor", "namespaces": []string{"*"}}
	if err := f.at.Do(t.Context(), http.MethodPost, "/v1/tokens", nil, token, &made); err != nil {
		t.Fatal(err)
	}
	b.click("button", "Sign out")
	b.see("the focus on the page's title", `document.activeElement.tagName === "H1" && document.activeElement.textContent === "This node"`)
	b.open("/clients")
	b.signIn(made.Secret)
	b.see("the page that was asked for, with the focus on its title", `document.activeElement.tagName === "H1" && document.activeElement.textContent === "Clients"`)
	b.write("#k-value-0", "a-secret-of-the-client")

	// Who writes does not lose what was written.
	b.press("\t")
	b.click("nav a", "Rules")
	b.click("[data-table=rules] a", "leased")
	b.click("main button", "Edit")
	b.write("#rule-text", "id: leased\nlimits: [4000/d]\n")
	if err := f.at.Do(t.Context(), http.MethodDelete, "/v1/tokens/passing", nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	b.click("main button", "Review")
	b.seeText("The token is invalid")
	b.see("what was written", `document.querySelector("#rule-text")?.value.includes("4000/d")`)

	b.click("nav a", "Rules")
	b.seeText("The token is no longer valid. Sign in again.")
	b.see("the field for another", `document.activeElement?.id === "token" && location.pathname === "/rules"`)
	if file := ask[int](b, "sessionStorage.length"); file != 0 {
		t.Errorf("%d things are kept of a token that was revoked", file)
	}
	b.signIn(testAdminToken)
	b.see("the page that was left", `document.querySelector("[data-table=rules]") && location.pathname === "/rules"`)
	b.click("nav a", "Clients")
	b.see("a form in which nobody has written", `document.querySelector("#k-value-0")?.value === ""`)
}

// wrongClock has the reader's clock be ten minutes ahead: nodes are as they were.
func (f *consoleFleet) wrongClock(t *testing.T) {
	b := f.browser
	ahead := page.AddScriptToEvaluateOnNewDocumentParams{Source: `Date.now = ((now) => () => now() + 600_000)(Date.now)`}
	script, err := chromedp.Call(b.page, page.AddScriptToEvaluateOnNewDocument, ahead)
	if err != nil {
		t.Fatal(err)
	}
	b.open("/fleet")
	b.see("two nodes that were heard of", `["first", "second"].every((id) => document.querySelector("[data-table=nodes] tr[data-node=" + id + "]:not(.gone)"))`)
	if got := ask[float64](b, "Date.now() - performance.timeOrigin"); got < 600_000 {
		t.Errorf("the clock of the page is %v ms ahead, want ten minutes", got)
	}
	if _, err := chromedp.Call(b.page, page.RemoveScriptToEvaluateOnNewDocument, page.RemoveScriptToEvaluateOnNewDocumentParams(script)); err != nil {
		t.Fatal(err)
	}
}
