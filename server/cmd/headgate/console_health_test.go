package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
)

const bannerShown = `document.querySelector("[data-banner=degraded]")`

// While Redis is down, every page has the banner, whichever node noticed, and no page says that there are no problems.
func TestConsoleHasABannerWhileAStoreIsDown(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t, redistest.Options{})
	shared := []string{"--store", redis.URL(), "--key-secret-file", newFile(t, "key-secret", "a secret that both nodes have")}
	service := serve(t, onFreePort(append(shared, "--node-id", "first",
		"--admin-token-file", newFile(t, "admin-token", testAdminToken+"\n"))...)...)
	at := rulesService(t, service)
	putRule(t, at, "per-user", `{"id":"per-user","key":["ip"],"limits":["100/s"]}`)
	second := serve(t, onFreePort(append(shared, "--node-id", "second", "--control", "http://"+service.admin,
		"--token-file", nodeToken(t, at))...)...)
	b := openBrowser(t, "http://"+service.admin)
	b.ensureSignedIn(testAdminToken)
	b.open("/fleet")
	b.see("two nodes without problems", `document.querySelectorAll('[data-table=nodes] tbody tr').length === 2 && document.querySelector(".summary").textContent.includes("no problems")`)
	if ask[bool](b, bannerShown+" !== null") {
		t.Fatal("got a banner while Redis is up")
	}

	redis.Kill()
	client := newClient(t, second.gateway)
	await.NoError(t, "an open circuit", func() error {
		_, _ = client.ask("/") // the circuit opens when requests fail
		if second.metric(`headgate_degraded_total{policy="open",rule="per-user"}`) == 0 {
			return errors.New("no decision is degraded")
		}
		return nil
	})
	began := time.Now()
	b.see("the banner", bannerShown)
	t.Logf("the banner came %v after the first degraded decision", time.Since(began).Round(time.Millisecond))
	for _, path := range []string{"/", "/rules", "/rules/per-user", "/clients", "/explain", "/fleet", "/stores", "/webhooks", "/audit", "/tokens", "/overrides"} {
		b.open(path)
		b.see("the banner on "+path, bannerShown)
		text := ask[string](b, "document.body.innerText")
		for _, wrong := range []string{"no problems", "\nreachable"} {
			if strings.Contains(text, wrong) {
				t.Errorf("%s: the page says %q below the banner", path, wrong)
			}
		}
	}
	// The first reading of a page knows one node only; the one after it, which has the session, knows all.
	b.see("what is wrong and on how many nodes",
		`/Store unreachable.* nodes/.test(`+bannerShown+`.textContent)`)

	redis.Restart()
	b.open("/fleet")
	await.NoError(t, "a closed circuit", func() error {
		_, _ = client.ask("/")
		if !ask[bool](b, bannerShown+" === null") {
			return fmt.Errorf("the banner is %q", ask[string](b, bannerShown+"?.textContent ?? ''"))
		}
		return nil
	})
}
