package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
)

const bannerShown = `document.querySelector("[data-banner=degraded]")`

// pagesWithBanner are all pages. Each is open in its own tab while the store fails.
var pagesWithBanner = []string{
	"/", "/rules", "/rules/per-user", "/clients", "/clients?registered", "/overrides", "/explain", "/fleet", "/stores",
	"/alerts", "/webhooks", "/audit", "/tokens", "/signin",
}

// While Redis is down, every open page has the banner, whichever node noticed, and no page says that there are no
// problems. When Redis is up again, the banner disappears from all of them.
func TestConsoleHasABannerWhileAStoreIsDown(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t, redistest.Options{})
	shared := []string{"--store", redis.URL(), "--key-secret-file", newFile(t, "key-secret", "a secret that both nodes have")}
	service := serve(t, onFreePort(append(shared, "--node-id", "first",
		"--admin-token-file", newFile(t, "admin-token", testAdminToken+"\n"))...)...)
	at := rulesService(t, service)
	putRule(t, at, "per-user", `{"id":"per-user","key":["ip"],"limits":["100/s"]}`)
	putRule(t, at, "strict", `{"id":"strict","key":["ip"],"limits":["100/s"],"when":{"path":"/strict"},"on_failure":"closed"}`)
	second := serve(t, onFreePort(append(shared, "--node-id", "second", "--control", "http://"+service.admin,
		"--token-file", nodeToken(t, at))...)...)
	b := openBrowser(t, "http://"+service.admin)
	b.ensureSignedIn(testAdminToken)
	b.open("/fleet")
	b.see("two nodes without problems", `document.querySelectorAll('[data-table=nodes] tbody tr').length === 2 && document.querySelector(".summary").textContent.includes("no problems")`)
	tabs := map[string]*browser{}
	for _, path := range pagesWithBanner {
		tab := b.newTab()
		tab.open(path)
		tab.see("the page "+path, `document.querySelector("main h1")`)
		if ask[bool](tab, bannerShown+" !== null") {
			t.Fatalf("%s: got a banner while Redis is up", path)
		}
		tabs[path] = tab
	}

	redis.Kill()
	stop := sendEvery(t, 20*time.Millisecond, second.gateway, "/", "/strict")
	defer stop()
	await.NoError(t, "an open circuit", func() error {
		if second.metric(`headgate_degraded_total{policy="open",rule="per-user"}`) == 0 {
			return errors.New("no decision is degraded")
		}
		return nil
	})
	slowest := timeOfAll(tabs, "the banner", bannerShown)
	t.Logf("the banner was on all pages %v after the first degraded decision", slowest.Round(time.Millisecond))
	for path, tab := range tabs {
		text := strings.ToLower(ask[string](tab, "document.body.innerText"))
		for _, wrong := range []string{"no problems", "\nreachable", "store reachable", "all nodes reach their store"} {
			if strings.Contains(text, wrong) {
				t.Errorf("%s: the page says %q below the banner", path, wrong)
			}
		}
	}
	const words = `/^Failing open since \d\d:\d\d on [12] of 2 nodes: about [\d.]+ req\/s unlimited under the rules demo-per-address, per-user\. Not failing open: the rule strict\./`
	for _, path := range pagesWithBanner {
		tabs[path].see("what is wrong, where and for which rules, on "+path, words+`.test(`+bannerShown+`.innerText)`)
	}

	redis.Restart()
	await.NoError(t, "a closed circuit", func() error {
		if _, status := get(t, "http://"+second.admin+"/readyz"); strings.Contains(status, `"up":false`) {
			return fmt.Errorf("its state is %s", status)
		}
		return nil
	})
	slowest = timeOfAll(tabs, "no banner", bannerShown+" === null")
	t.Logf("the banner was gone from all pages %v after the store was reachable", slowest.Round(time.Millisecond))
	tabs["/fleet"].see("no problems", `document.querySelector(".summary").textContent.includes("no problems")`)
}

// timeOfAll waits until an expression is true in all tabs, and returns how long that took.
func timeOfAll(tabs map[string]*browser, what, expression string) time.Duration {
	began := time.Now()
	for path, tab := range tabs {
		tab.see(what+" on "+path, expression)
	}
	return time.Since(began)
}

// every calls f at once and then in an interval, until f returns an error or the returned function is called.
func every(t *testing.T, interval time.Duration, f func(ctx context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			if err := f(ctx); err != nil {
				if ctx.Err() == nil {
					t.Error(err)
				}
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	return func() {
		cancel()
		group.Wait()
	}
}

// sendEvery sends requests to a gateway until the returned function is called.
func sendEvery(t *testing.T, interval time.Duration, gateway string, paths ...string) (stop func()) {
	t.Helper()
	return every(t, interval, func(ctx context.Context) error {
		for _, path := range paths {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+gateway+path, http.NoBody)
			if err != nil {
				return err
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return fmt.Errorf("GET %s: %w", path, err)
			}
			_ = response.Body.Close()
		}
		return nil
	})
}

// Some calls of a store time out, too few to open its circuit. Every page has the banner before any alert fires, no page
// says that the store is unreachable, and the banner says when it has ended.
func TestConsoleHasABannerWhileCallsTimeOut(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t, redistest.Options{})
	service := serve(t, onFreePort("--store", redis.URL(), "--node-id", "first",
		"--key-secret-file", newFile(t, "key-secret", "a secret of the node"), "--admin-token-file", newFile(t, "admin-token", testAdminToken+"\n"))...)
	at := rulesService(t, service)
	putRule(t, at, "per-user", `{"id":"per-user","key":["ip"],"limits":["1000/s"]}`)
	b := openBrowser(t, "http://"+service.admin)
	b.ensureSignedIn(testAdminToken)
	tabs := map[string]*browser{}
	for _, path := range []string{"/", "/fleet", "/stores", "/alerts"} {
		tabs[path] = b.newTab()
		tabs[path].open(path)
		tabs[path].see("the page "+path, `document.querySelector("main h1") && `+bannerShown+` === null`)
	}
	stop := sendEvery(t, 100*time.Millisecond, service.gateway, "/")
	defer stop()
	busy := keepBusy(t, redis)
	defer busy()
	await.NoError(t, "a call that times out", func() error {
		if service.metric(`headgate_degraded_total{policy="open",rule="per-user"}`) == 0 {
			return errors.New("no decision is degraded")
		}
		return nil
	})
	slowest := timeOfAll(tabs, "the banner", `/^Fail(ing|ed) open .* under the rules? [^]*per-user/.test(`+bannerShown+`.innerText)`)
	t.Logf("the banner was on all pages %v after the first timeout", slowest.Round(time.Millisecond))
	for path, tab := range tabs {
		text := strings.ToLower(ask[string](tab, "document.body.innerText"))
		for _, wrong := range []string{"no problems", "unreachable", "store reachable", "\nreachable", "store ok", "none firing"} {
			if strings.Contains(text, wrong) {
				t.Errorf("%s: the page says %q below the banner", path, wrong)
			}
		}
	}
	tabs["/"].see("the problem", `/Some calls of the store time(d)? out/.test(document.querySelector("[data-status]").innerText)`)
	tabs["/fleet"].see("the state of the node", `/some calls time(d)? out/.test(document.querySelector("[data-node=first]").innerText)`)

	busy()
	slowest = timeOfAll(tabs, "the end in the banner", bannerShown+` === null || /^Failed open /.test(`+bannerShown+`.innerText)`)
	t.Logf("the banner said so %v after the last timeout", slowest.Round(time.Millisecond))
	timeOfAll(tabs, "no banner", bannerShown+" === null")
	tabs["/fleet"].see("no problems", `document.querySelector(".summary").textContent.includes("no problems")`)
}

// keepBusy makes a Redis server respond late twice a second, until the returned function is called.
func keepBusy(t *testing.T, redis *redistest.Server) (stop func()) {
	t.Helper()
	const script = `local function now() local t = redis.call('TIME') return t[1] * 1000000 + t[2] end
local e = now() + 45000 while now() < e do end`
	return every(t, 500*time.Millisecond, func(context.Context) error {
		_, err := redis.Do("EVAL", script, "0")
		return err
	})
}
