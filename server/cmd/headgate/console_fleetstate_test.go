package main

import (
	"testing"
	"time"

	"github.com/headgate/headgate/internal/redistest"
)

// The console of the rules service shows what only another node knows: a switch that was made on that node, and the
// failure of a Redis that only that node uses. The console of the node itself can make and end the switch.
func TestConsoleShowsTheStateOfOtherNodes(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t, redistest.Options{})
	admin := newFile(t, "admin-token", testAdminToken+"\n")
	service := serve(t, onFreePort("--node-id", "first", "--admin-token-file", admin)...)
	at := rulesService(t, service)
	putRule(t, at, "per-user", `{"id":"per-user","key":["ip"],"limits":["100/s"]}`)
	putRule(t, at, "watches", `{"id":"watches","key":["ip"],"limits":["1/s"],"on_limit":"shadow"}`)
	second := serve(t, onFreePort("--store", redis.URL(), "--key-secret-file", newFile(t, "key-secret", "a secret that both nodes have"),
		"--node-id", "eu-2", "--control", "http://"+service.admin, "--token-file", nodeToken(t, at), "--admin-token-file", admin)...)

	// The switch, made on the page of the node, which nobody can sign in to.
	own := openBrowser(t, "http://"+second.admin)
	own.open("/")
	own.see("the state of the node", `document.querySelector("#here-title")`)
	own.click("main button", "Stop enforcing on this node")
	own.asked("Stop enforcing limits on this node?")
	own.write("#enforcement-token", testAdminToken)
	own.click("dialog button", "Stop for 30")
	const banner = `document.querySelector("[data-banner=enforcement]")`
	own.see("the banner of the node", banner+`?.innerText.includes("all rules on this node")`)

	b := openBrowser(t, "http://"+service.admin)
	b.ensureSignedIn(testAdminToken)
	b.open("/")
	b.see("the banner", banner+`?.innerText.includes("all rules on the node eu-2") && `+banner+`.innerText.includes("headgate enforce on --this-node --server http://")`)
	b.see("the problem", `/Enforcement is off on the node eu-2/.test(document.querySelector("[data-status]").innerText)`)
	b.open("/fleet")
	b.see("the badge of the node", `document.querySelector("[data-table=nodes] [data-node=eu-2]")?.innerText.includes("not enforced: all rules")`)

	own.click("[data-banner=enforcement] button", "Enforce again")
	own.asked("Enforce limits on this node again?")
	own.write("#enforcement-token", testAdminToken)
	own.click("dialog button", "Enforce again")
	own.see("no banner on the node", banner+` === null`)
	b.see("no banner in the fleet", banner+` === null`)

	redis.Kill()
	stop := sendEvery(t, 20*time.Millisecond, second.gateway, "/")
	defer stop()
	b.open("/stores")
	b.see("the failed server", `/used by eu-2[^]*down/.test(document.querySelector("[data-table=shards] tbody")?.innerText)`)
	b.see("its circuit", `/open\s+on eu-2/.test(document.querySelector("[data-table=shards] tbody")?.innerText)`)
	b.see("the rules that fail open, without the shadow rule",
		`/^Failing open/.test(`+bannerShown+`?.innerText) && !`+bannerShown+`.innerText.includes("watches")`)
	b.open("/alerts")
	b.see("a pending alert", `/pending/.test(document.querySelector("[data-table=alerts]")?.innerText) && !/none firing|No alert fires/.test(document.body.innerText)`)
	stop()
	redis.Restart()
	b.see("the words of the alert in the past, or none, without the banner", bannerShown+` === null && !/ pass without a limit/.test(document.body.innerText)`)
	b.open("/stores")
	b.see("the server that is up again", `/closed/.test(document.querySelector("[data-table=shards] tbody")?.innerText) && !/down|open/.test(document.querySelector("[data-table=shards] tbody").innerText)`)
}
