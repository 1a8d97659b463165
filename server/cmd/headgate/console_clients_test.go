package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/headgate/headgate/server/control/remote"
)

func (d *consoleDesk) overrides(t *testing.T) {
	b := d.browser
	b.open("/overrides")
	b.click("main a", "New override")
	b.see("the form, with the focus in its first field", `document.activeElement.id === "o-value-0"`)
	b.press(kb.Enter)
	b.wrongAt("#o-value-0", "an attribute and its value")
	b.wrongAt("#o-limits", "as in 500/s")
	b.write("#o-value-0", "acme")
	b.write("#o-limits", "lots"+kb.Enter)
	b.wrongAt("#o-limits", `want`)
	b.write("#o-limits", "500/s")
	b.write("#o-rule", "none"+kb.Enter)
	b.see("what will be", `document.querySelector(".review .diff")?.textContent.includes("+limits: [500/s]")`)
	b.click("main button", "Save") // what only the service knows is said at the field as well
	b.wrongAt("#o-rule", "want")
	b.write("#o-rule", "per-user")
	b.click("main button", "in 7")
	b.write("#o-note", "their sale"+kb.Enter)
	b.see("what will be", `document.activeElement.textContent === "Save" && document.querySelector(".review .diff")?.textContent.includes("+client: {user: acme}")`)
	b.press(kb.Enter)
	b.seeText("user=acme has an override until")
	b.see("it in the list", `[...document.querySelectorAll("[data-table=overrides] tbody tr")].some((e) => e.textContent.includes("acme") && e.textContent.includes("500/s") && e.textContent.includes("their sale"))`)
	var made struct {
		Overrides []struct {
			Override struct {
				ID      string
				Expires time.Time
			}
		}
	}
	if err := d.at.Do(t.Context(), http.MethodGet, "/v1/overrides", url.Values{"q": {"acme"}}, nil, &made); err != nil || len(made.Overrides) != 1 {
		t.Fatalf("got %v, %v, want the one override of acme", made, err)
	}
	id := made.Overrides[0].Override.ID
	if left := time.Until(made.Overrides[0].Override.Expires); left < 6*24*time.Hour || left > 7*24*time.Hour+time.Minute {
		t.Errorf("it lasts for %v, want seven days", left)
	}
	if got, err := limitOf(t, d.service, "acme"); err != nil || got != 500 {
		waitLimit(t, d.service, "acme", 500)
	}

	// Changed, while somebody else changes it.
	b.click(`[data-table=overrides] button[aria-label="Change the override of user=acme"]`, "Change")
	b.see("what it is", `document.querySelector("#o-limits")?.value === "500/s" && document.querySelector("#o-rule").value === "per-user"`)
	b.write("#o-limits", "600/s"+kb.Enter)
	b.see("what changes, and nothing else", `[...document.querySelectorAll(".review .diff :is(.add, .del)")].map((e) => e.textContent.trim()).join() === "-limits: [500/s],+limits: [600/s]"`)
	other := map[string]any{"note": "their second sale"}
	if err := d.at.Do(t.Context(), http.MethodPatch, "/v1/overrides/"+id, nil, other, nil); err != nil {
		t.Fatal(err)
	}
	b.click("main button", "Save")
	b.seeText("Somebody else has changed it")
	b.click("main button", "Compare with the current version")
	b.see("what would be overwritten", `document.querySelector(".review .diff .del ~ .del")?.textContent.includes("second sale")`)
	b.click("main button", "Save")
	b.seeText("user=acme has an override until")
	d.has(t, "/v1/overrides/"+id, "600/s", "their sale")
	b.see("what it is now", `document.querySelector("[data-table=overrides]")?.textContent.includes("600/s")`)

	b.click(`[data-table=overrides] button[aria-label="End the override of user=acme"]`, "End")
	b.asked("End the override of user=acme now?")
	b.press(kb.Tab + kb.Enter)
	b.seeText("user=acme has its own limits again.")
	b.see("that it is not in the list", `!document.querySelector("[data-table=overrides]").textContent.includes("acme")`)
	if got := d.get(t, "/v1/overrides/"+id, nil); !strings.Contains(got, "There is no override") {
		t.Errorf("it is still there: %s", got)
	}
}

func (d *consoleDesk) resets(t *testing.T) {
	b := d.browser
	for range 3 {
		response, err := http.Post("http://"+d.service.api+"/v1/ratelimit", "application/json", strings.NewReader(`{"ruleId":"per-user","client":{"userId":"reset-me"}}`))
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
	b.open("/clients")
	b.write("#k-value-0", "reset-me"+kb.Enter)
	left := func(text string) string {
		return fmt.Sprintf(`[...document.querySelectorAll("[data-table=keys] tr")].some((e) => e.textContent.includes("per-user") && e.textContent.includes(%q))`, text)
	}
	b.see("what is left", left("17 of 20"))
	b.write("#k-value-0", "somebody-else") // which is not who was looked up
	b.click(`[data-table=keys] button[aria-label="Reset it under per-user"]`, "Reset")
	b.asked("Reset this client under per-user?")
	b.see("whom", `document.querySelector("dialog").textContent.includes("user=reset-me")`)
	b.press(kb.Tab + kb.Enter)
	b.seeText("Its consumption was reset under per-user.")
	b.see("what is left now", left("20 of 20"))

	b.click("main button", "Other limits for a time")
	b.see("the form for whom was looked up", `document.querySelector("#o-value-0")?.value === "reset-me" && document.activeElement.id === "o-limits"`)
	if at := ask[string](b, "location.href"); strings.Contains(at, "reset-me") {
		t.Errorf("the address is %s, want no client in it", at)
	}
	b.click("main button", "Cancel")
	b.see("the list", `document.querySelector("[data-table=overrides]")`)
}

func (d *consoleDesk) audit(t *testing.T) {
	b := d.browser
	d.as(consoleAdmin)
	b.open("/audit")
	row := func(texts ...string) string {
		is := `[...document.querySelectorAll("[data-table=audit] tbody tr")].find((e) => true`
		for _, text := range texts {
			is += fmt.Sprintf(" && e.textContent.includes(%q)", text)
		}
		return is + ")"
	}
	b.see("the deletion", row("writer", "rules.delete", "as-text", "nobody needs it", "127.0.0.1"))
	ask[bool](b, "("+row("rules.delete", "as-text")+`.querySelector("summary").click(), true)`)
	b.see("what it was", row("rules.delete", "as-text")+`.querySelector("details[open] .diff .del")?.textContent.includes("as-text")`)
	b.see("the reset", row("writer", "keys.reset"))
	ask[bool](b, `(() => { const e = document.querySelector("#kind"); e.value = "override"; e.dispatchEvent(new Event("change", { bubbles: true })); return true; })()`)
	b.see("overrides alone", `!`+row("rules.delete")+" && "+row("overrides.put", "override"))
	ask[bool](b, "("+row("overrides.put")+`.querySelector("summary").click(), true)`)
	b.see("before and after", row("overrides.put")+`.querySelector(".diff .del")?.textContent.includes("500/s") && `+row("overrides.put")+`.querySelector(".diff .add")?.textContent.includes("600/s")`)
}

func (d *consoleDesk) tokensMadeAndRevoked(t *testing.T) {
	b := d.browser
	b.open("/tokens")
	b.see("one's own", `[...document.querySelectorAll("[data-table=tokens] tr")].some((e) => e.textContent.includes("keeper") && e.textContent.includes("yours"))`)
	b.click("main a", "New token")
	b.see("the form", `document.activeElement.id === "t-id"`)
	b.press("no good" + kb.Enter)
	b.wrongAt("#t-id", "want")
	b.write("#t-id", "reporter"+kb.Enter)
	b.see("the secret", `/^hg_reporter_\w+$/.test(document.querySelector("input.secret")?.value ?? "") && document.activeElement.classList.contains("secret")`)
	secret := ask[string](b, `document.querySelector("input.secret").value`)
	who := rulesServiceAt(t, remote.Config{URL: "http://" + d.service.admin, Token: secret, Timeout: patience})
	if err := who.Do(t.Context(), http.MethodGet, "/v1/rules", nil, nil, nil); err != nil {
		t.Errorf("the token that was shown: %v", err)
	}
	b.open("/tokens")
	b.see("it in the list", `document.querySelector("[data-table=tokens]")?.textContent.includes("reporter")`)
	if file := ask[string](b, `document.documentElement.outerHTML + JSON.stringify(sessionStorage) + JSON.stringify(localStorage)`); strings.Contains(file, secret) {
		t.Error("the secret is shown, or kept, after the once")
	}
	b.click(`[data-table=tokens] button[aria-label="Revoke reporter"]`, "Revoke")
	b.asked("Revoke the token reporter?")
	b.press(kb.Tab + kb.Enter)
	b.see("that it is gone", `!document.querySelector("[data-table=tokens]").textContent.includes("reporter") && !document.querySelector("dialog.confirm")`)
	if err := who.Do(t.Context(), http.MethodGet, "/v1/rules", nil, nil, nil); err == nil {
		t.Error("the token is good after it was revoked")
	}
}
