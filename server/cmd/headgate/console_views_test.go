package main

import (
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/server/control/remote"
)

// screenshots is where make screenshots wants the pictures of docs/console.md.
var screenshots = flag.String("screenshots", "", "write pictures of all pages of the console to this `DIRECTORY`")

// warmUp is how long demo traffic runs before pictures are taken, so that there are samples for what-if. Charts show the
// hour before, too: see addHistory.
var warmUp = flag.Duration("warm-up", 70*time.Second, "run demo traffic for this `TIME` before pictures are taken")

// A consoleGallery is a fleet of two nodes with demo traffic, and a browser that shows the console.
type consoleGallery struct {
	service *process
	at      *remote.Client
	browser *browser
	redis   []*redistest.Server // the servers of the store
}

// Every page and dialog is accessible, in light and dark and on a small screen. make screenshots takes pictures of them.
func TestConsoleViews(t *testing.T) {
	t.Parallel()
	axe, err := os.ReadFile(filepath.FromSlash("../../ui/node_modules/axe-core/axe.min.js"))
	if err != nil {
		t.Fatalf("%v: run make ui, which installs axe-core", err)
	}
	g := openConsoleGallery(t)
	b := g.browser
	if *screenshots != "" {
		select {
		case <-time.After(*warmUp):
		case <-t.Context().Done():
		}
	}
	for _, view := range consoleViews() {
		t.Run(view.name, func(t *testing.T) {
			b.as(t)
			b.colours("light")
			b.width(1280)
			view.show(g, t)
			if cut := ask[string](b, `[...document.querySelectorAll(".scroll")].filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.innerText.slice(0, 99)).join()`); cut != "" {
				t.Errorf("at 1280 pixels these tables are cut: %s", cut)
			}
			for _, wrong := range b.axe(string(axe), "") {
				t.Errorf("light: %s", wrong)
			}
			b.picture(view.name + "-light")
			b.colours("dark")
			for _, wrong := range b.axe(string(axe), `, runOnly: ["color-contrast"]`) { // the rest does not depend on colours
				t.Errorf("dark: %s", wrong)
			}
			b.picture(view.name + "-dark")
			b.width(390)
			if got := ask[int](b, "document.documentElement.scrollWidth"); got > 390 {
				t.Errorf("the page is %d wide on a screen of 390", got)
			}
			b.colours("light")
			if view.phone {
				b.picture(view.name + "-phone")
			}
		})
	}
	if got := b.complained("401", "404"); len(got) > 0 {
		t.Errorf("the console got %q", got)
	}
}

// openConsoleGallery starts two nodes, with rules, clients, overrides and changes for every page to show.
func openConsoleGallery(t *testing.T) *consoleGallery {
	t.Helper()
	g := &consoleGallery{}
	store := ""
	if *screenshots != "" {
		cluster := redistest.Cluster(t, redistest.ClusterOptions{})
		for _, server := range cluster.Servers() { // as doctor recommends
			if _, err := server.Do("CONFIG", "SET", "cluster-require-full-coverage", "no"); err != nil {
				t.Fatal(err)
			}
		}
		store, g.redis = cluster.URL(), cluster.Servers()
	} else {
		redis := redistest.Standalone(t, redistest.Options{})
		store, g.redis = redis.URL(), []*redistest.Server{redis}
	}
	shared := []string{"--store", store, "--key-secret-file", newFile(t, "key-secret", "a secret that both nodes have"), "--demo-traffic", "on"}
	g.service = serve(t, onFreePort(append(shared, "--node-id", "frankfurt-1", "--region", "eu",
		"--admin-token-file", newFile(t, "admin-token", testAdminToken+"\n"))...)...)
	g.at = rulesService(t, g.service)
	serve(t, onFreePort(append(shared, "--node-id", "frankfurt-2", "--region", "eu", "--control", "http://"+g.service.admin,
		"--token-file", nodeToken(t, g.at))...)...)
	do := func(method, path string, body any) {
		t.Helper()
		if err := g.at.Do(t.Context(), method, path, url.Values{"note": {"for the launch"}}, body, nil); err != nil {
			t.Fatal(err)
		}
	}
	do(http.MethodPatch, "/v1/rules/demo-per-key", map[string]any{"limits": []string{"10/s burst 40"}})
	do(http.MethodPatch, "/v1/rules/demo-per-client", map[string]any{"limits": []string{"4/s burst 20"}})
	do(http.MethodPatch, "/v1/rules/demo-per-client", map[string]any{"limits": []string{"5/s burst 20"}})
	for i, plan := range []string{"gold", "silver", "free", "gold", "silver"} {
		id := []string{"acme", "globex", "initech", "umbrella", "hooli"}[i]
		client := map[string]any{"id": id, "attributes": map[string]any{"user": id, "plan": plan}}
		if plan == "gold" {
			client["limits"] = []string{"500/s"}
		}
		do(http.MethodPost, "/v1/clients", client)
	}
	do(http.MethodPost, "/v1/overrides", map[string]any{"client": map[string]string{"user": "acme"}, "limits": []string{"500/s"}, "for": "72h", "note": "their launch"})
	do(http.MethodPost, "/v1/overrides", map[string]any{"client": map[string]string{"ip": "203.0.113.9"}, "block": true, "for": "24h", "note": "scraper"})
	do(http.MethodPost, "/v1/webhooks", map[string]any{"id": "chat", "url": "https://hooks.example.com/headgate", "description": "the on-call channel"})
	do(http.MethodPost, "/v1/tokens", map[string]any{"id": "reporter", "role": "viewer", "namespaces": []string{"default"}, "description": "weekly report", "for": "365d"})
	if *screenshots != "" {
		g.addHistory(t)
	}
	g.browser = openBrowser(t, "http://"+g.service.admin)
	g.browser.ensureSignedIn(testAdminToken)
	g.browser.open("/")
	await.NoError(t, "denied requests of the demo traffic", func() error {
		if ask[int](g.browser, `document.querySelectorAll("[data-table=top-clients] tbody tr").length`) == 0 {
			return fmt.Errorf("the page is %q", ask[string](g.browser, "document.body.innerText.slice(0, 300)"))
		}
		return nil
	})
	return g
}

// visit shows another page without loading the console again, as a click on a link does, so that axe-core stays loaded.
// A page in between closes dialogs and forms.
func (b *browser) visit(path string) {
	b.t.Helper()
	for _, next := range []string{"/nothing", path} {
		ask[bool](b, fmt.Sprintf(`(history.pushState(null, "", %q), dispatchEvent(new Event("popstate")), true)`, next))
		if next != path {
			b.see("no page", `document.body.innerText.includes("This page does not exist")`)
		}
	}
}

// axe returns what axe-core finds on the page, of serious and critical impact.
func (b *browser) axe(source, options string) []string {
	b.t.Helper()
	if !ask[bool](b, "'axe' in window") {
		ask[bool](b, source+"\n;true")
	}
	return browse(b, chromedp.Evaluate[[]string](`axe.run(document, { resultTypes: ["violations"]`+options+` }).then((found) =>
  found.violations.filter((v) => v.impact === "serious" || v.impact === "critical")
    .flatMap((v) => v.nodes.map((n) => v.id + ": " + n.target.join(" ") + ": " + n.failureSummary.replace(/\s+/g, " "))))`, chromedp.EvalAwaitPromise))
}
