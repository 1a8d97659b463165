package main

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

func (f *consoleFleet) keyboard(t *testing.T) {
	b := f.browser
	focused := func() string {
		return ask[string](b, `(() => { const e = document.activeElement; return e.tagName + " " + (e.id || e.textContent.trim() || e.getAttribute("aria-label")); })()`)
	}
	b.open("/fleet")
	b.see("the fleet", `document.querySelector("[data-table=nodes]")`)
	b.press(kb.Tab)
	if got := focused(); got != "A Skip to the page" {
		t.Errorf("the first that is reached is %q, want the way past the menu", got)
	}
	// All that can be reached shows that it is; the last of the page is its last link.
	seen := map[string]bool{}
	for range 60 {
		seen[focused()] = true
		if ask[string](b, `getComputedStyle(document.activeElement).outlineStyle`) == "none" {
			t.Errorf("%q has the focus and does not show it", focused())
		}
		if strings.HasPrefix(focused(), "A Health") {
			break
		}
		b.press(kb.Tab)
	}
	for _, want := range []string{"A Overview", "A Fleet", "A Stores", "A Rules", "A Explain", "A Clients", "INPUT namespace", "BUTTON Sign out", "BUTTON Keys ?", "A Health"} {
		if !seen[want] {
			t.Errorf("%q is not reached by Tab", want)
		}
	}
	b.chord("gr", "the rules, with the focus on their title", `document.activeElement.tagName === "H1" && document.activeElement.textContent === "Rules"`)
	b.see("the list", `document.querySelector('[data-table=rules] a')`)
	b.press("/")
	b.see("the search", `document.activeElement.type === "search"`)
	b.write("[data-search]", "told") // what is simulated writes the slash as well
	b.see("what was found", `document.querySelectorAll('[data-table=rules] tbody tr').length === 1 && location.search === "?q=told"`)
	b.press(kb.ArrowDown)
	if got := focused(); got != "A told" {
		t.Errorf("the arrow leads to %q, want the first rule", got)
	}
	b.write("[data-search]", kb.Backspace)
	b.see("all rules", `document.querySelectorAll('[data-table=rules] tbody tr').length === 2`)
	for _, step := range []struct{ key, want string }{
		{kb.ArrowDown, "A leased"}, {kb.ArrowDown, "A told"}, {kb.Home, "A leased"}, {kb.End, "A told"}, {kb.ArrowUp, "A leased"}, {kb.End, "A told"},
	} {
		if b.press(step.key); focused() != step.want {
			t.Errorf("the next is %q, want %q", focused(), step.want)
		}
	}
	b.press(kb.Enter)
	b.see("the rule", `location.pathname === "/rules/told" && document.querySelector("pre.text")`)
	b.press("?")
	b.see("what keys there are", `document.querySelector("dialog").open`)
	b.press(kb.Escape)
	b.see("it closed", `!document.querySelector("dialog").open`)
	b.chord("gf", "the fleet", `location.pathname === "/fleet"`)
	b.chord("gh", "the overview", `location.pathname === "/"`)
}
