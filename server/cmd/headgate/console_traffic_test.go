package main

import (
	"errors"
	"testing"

	"github.com/headgate/headgate/internal/await"
)

// Signing in is enough to see which client is denied most, and by which rule; one click leads to its limits.
func TestConsoleShowsTheMostDeniedClientAfterSignIn(t *testing.T) {
	t.Parallel()
	p := serve(t, onFreePort("--admin-token-file", newFile(t, "admin-token", testAdminToken+"\n"), "--demo-traffic", "on")...)
	b := openBrowser(t, "http://"+p.admin)
	b.open("/signin")
	b.signIn(testAdminToken)
	first := `document.querySelector("[data-table=top-clients] tbody tr")`
	b.see("the most denied client with its rule", first+`?.querySelector("[data-label=Client]").textContent.includes("noisy") && `+
		first+`.querySelector("[data-label=Rule] a").textContent === "demo-per-client" && Number(`+first+`.querySelector("[data-label=Denied]").dataset.value) > 0`)
	b.see("the chart", `document.querySelector(".chart canvas")`)
	b.click("[data-table=top-clients] tbody tr:first-child button", "Open")
	b.see("its limits", `document.querySelector("[data-table=keys]")?.textContent.includes("demo-per-client")`)
	b.see("its requests over time", `document.querySelector("[data-series] canvas") && document.querySelector("[data-table=client-traffic] .spark")`)
	b.see("decisions that allow and that deny", `["allowed", "denied"].every((word) => document.querySelector("[data-table=decisions]").textContent.includes(word))`)
	b.click("main button", "Show denials only")
	b.see("denials alone", `document.querySelector("#decisions-title").textContent === "Last denials" && [...document.querySelectorAll("[data-table=decisions] [data-label=Decision]")].every((e) => /^(denied|would be denied)/.test(e.textContent))`)
	// Clients with a secret are known by its hash: what is typed is hashed, too.
	b.open("/clients")
	b.write("input[type=search]", "demo-key-mobile-app")
	b.see("the client with this key", `document.querySelectorAll("[data-table=top-clients] tbody tr").length > 0 && [...document.querySelectorAll("[data-table=top-clients] [data-label=Client]")].every((e) => /^api_key=.*#[0-9a-f]{16}$/.test(e.textContent))`)
	b.click("[data-table=top-clients] tbody tr:first-child button", "Open")
	b.see("its decisions, and that limits need the secret", `document.querySelector("[data-table=decisions] tbody tr") && document.body.innerText.includes("This is the hash of a secret")`)
	// A part of a name finds the clients that have it. Secrets are shown by their first characters.
	b.open("/clients")
	b.write("#k-name-0", "host")
	b.write("#k-value-0", "nois")
	b.click("main button", "Look up")
	b.see("the client with such a name", `document.querySelector("[aria-labelledby=similar-title]")?.innerText.includes("noisy.demo.test")`)
	b.write("#k-name-0", "api_key")
	b.write("#k-value-0", "demo-key-mobile-app")
	b.click("main button", "Look up")
	b.see("the short form of the key", `document.querySelector(".client-name")?.innerText === "api_key=demo…"`)
	b.click("main button", "Erase its statistics")
	b.asked("Erase the statistics of this client?")
	b.see("the short form in the question", `!document.querySelector("dialog").innerText.includes("mobile-app")`)
	b.click("dialog button", "Erase")
	b.see("that they were erased", `/Its statistics were erased: \d+ entr/.test(document.querySelector("main").innerText)`)
	if got := b.complained(); len(got) > 0 {
		t.Errorf("the console got %q", got)
	}
}

// A rule page shows what other limits would have denied, and takes them over after the difference was shown.
func TestConsoleTriesOtherLimits(t *testing.T) {
	t.Parallel()
	p := serve(t, onFreePort("--admin-token-file", newFile(t, "admin-token", testAdminToken+"\n"), "--demo-traffic", "on")...)
	b := openBrowser(t, "http://"+p.admin)
	b.ensureSignedIn(testAdminToken)
	b.open("/rules/demo-per-client")
	b.see("denied clients", `document.querySelector("[data-table=top-clients] tbody tr [data-label=Denied]")?.dataset.value > 0`)
	b.write("#whatif-limits", "lots")
	b.click("main button", "Try these limits")
	b.wrongAt("#whatif-limits", "want")
	b.write("#whatif-limits", " ")
	b.click("main button", "Try these limits")
	b.seeText("at least one limit, such as 10/s")
	b.write("#whatif-limits", "2/s burst 4")
	await.NoError(t, "a replay with denied requests", func() error {
		b.click("main button", "Try these limits")
		b.see("the result", `!document.querySelector("progress") && document.querySelector("[data-whatif]")`)
		if !ask[bool](b, `document.querySelector("[data-table=whatif-clients]")?.textContent.includes("noisy") ?? false`) {
			return errors.New("the requests of noisy are not in the sample yet")
		}
		return nil
	})
	b.see("the curve", `document.querySelector("[data-whatif] .chart canvas")`)
	b.write("#whatif-limits", "lots")
	b.click("main button", "Try these limits")
	b.wrongAt("#whatif-limits", "want")
	b.see("no result of other limits", `document.querySelector("[data-whatif]") === null`)
	b.write("#whatif-limits", "2/s burst 4")
	b.click("main button", "Try these limits")
	b.click("main button", "Use 2/s burst 4")
	b.asked("Change the limits of demo-per-client?")
	b.see("the difference", `document.querySelector("dialog .diff .add")?.textContent.includes("2/s burst 4")`)
	b.click("dialog button", "Change the limits")
	b.see("the new limits", `document.querySelector("pre.text")?.textContent.includes("limits: [2/s burst 4]")`)
	if got := b.complained("422"); len(got) > 0 {
		t.Errorf("the console got %q", got)
	}
}
