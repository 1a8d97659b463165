package main

import "testing"

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
	if got := b.complained(); len(got) > 0 {
		t.Errorf("the console got %q", got)
	}
}
