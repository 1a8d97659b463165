package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/server/control/remote"
)

// evil would run as a script in a page that inserts texts as HTML.
const evil = `<img src=x onerror="window.harmed=1"><script>window.harmed=1</script>`

const (
	consoleTold   = `{"id":"told","description":%q,"when":{"path":"/told"},"key":["api_key"],"limits":["20/d"],"consistency":"async"}`
	consoleLeased = `{"id":"leased","when":{"path":"/leased"},"limits":["1000/d"],"consistency":"lease"}`
)

// A consoleFleet is a rules service and a node of it that share a Redis, and a browser that shows the console of the
// rules service.
type consoleFleet struct {
	redis         *redistest.Server
	service, node *process
	at            *remote.Client
	browser       *browser
}

// The console of two real processes, in a real browser. The parts share both, but any of them can run alone.
func TestConsole(t *testing.T) {
	t.Parallel()
	f := openConsoleFleet(t)
	for _, part := range []struct {
		name     string
		signedIn bool // the part begins with an admin who is signed in
		run      func(*consoleFleet, *testing.T)
	}{
		{"ShowsTheNodeItselfWithoutAToken", false, (*consoleFleet).unsigned},
		{"RejectsAWrongTokenAndKeepsAGoodOneInTheTab", false, (*consoleFleet).signsIn},
		{"ShowsLagAndOverAdmissionAsTheMetricsDo", true, (*consoleFleet).figures},
		{"LoadsEveryPage", true, (*consoleFleet).pages},
		{"ShowsForeignTextAsText", true, (*consoleFleet).harmless},
		{"WorksWithTheKeyboardAlone", true, (*consoleFleet).keyboard},
		{"IsReadableInLightAndDark", true, (*consoleFleet).readable},
		{"ScrollsOnlyDownOnASmallScreen", true, (*consoleFleet).narrow},
		{"ShowsAnEditorAConcurrentChange", true, (*consoleFleet).editsAtOnce},
		{"AsksForAnotherTokenAfterARevocation", true, (*consoleFleet).revoked},
		{"WorksWithAWrongClock", true, (*consoleFleet).wrongClock},
		{"ShowsUnknownCountersWithoutRedis", true, (*consoleFleet).unknown}, // it stops Redis
		{"ShowsAnUnreachableService", true, (*consoleFleet).away},           // it stops the service
	} {
		ok := t.Run(part.name, func(t *testing.T) {
			f.browser.as(t)
			if part.signedIn {
				f.browser.ensureSignedIn(testAdminToken)
			}
			part.run(f, t)
		})
		if !ok {
			return
		}
	}
}

// openConsoleFleet starts the processes and the browser. Both nodes have leased units and have admitted more than a
// limit, and the rule told has been changed once.
func openConsoleFleet(t *testing.T) *consoleFleet {
	t.Helper()
	f := &consoleFleet{redis: redistest.Standalone(t, redistest.Options{})}
	shared := []string{
		// Without a shared secret, nodes do not exchange counters of API keys.
		"--key-secret-file", newFile(t, "key-secret", "a secret that both nodes have"), "--store", f.redis.URL(), "--region", "eu",
	}
	f.service = serve(t, onFreePort(append(shared, "--node-id", "first",
		"--admin-token-file", newFile(t, "admin-token", testAdminToken+"\n"))...)...)
	f.at = rulesService(t, f.service)
	rules := json.RawMessage(`{"rules":[` + fmt.Sprintf(consoleTold, evil) + "," + consoleLeased + "]}")
	prune := url.Values{"prune": {""}} // remove the demo rules
	if err := f.at.Do(t.Context(), http.MethodPost, "/v1/rules:apply", prune, rules, nil); err != nil {
		t.Fatal(err)
	}
	f.node = serve(t, onFreePort(append(shared, "--node-id", "second", "--control", "http://"+f.service.admin,
		"--token-file", nodeToken(t, f.at))...)...)
	f.browser = openBrowser(t, "http://"+f.service.admin)
	leases := newClient(t, f.node.gateway)
	await.NoError(t, "leased units", func() error {
		leases.passed("/leased")
		if f.node.metric(`headgate_lease_units_total{kind="granted"}`) == 0 {
			return errors.New("no unit is granted")
		}
		return nil
	})
	f.overAdmit(t)
	putRule(t, f.at, "told", fmt.Sprintf(consoleTold, evil+" again")) // nodes send a heartbeat after a change of rules
	return f
}

func (f *consoleFleet) unsigned(t *testing.T) {
	b := f.browser
	b.open("/")
	b.seeText("Sign in to see all nodes, rules and clients.")
	b.see("what this node decides", `document.querySelector("#here-title")?.textContent === "Decisions"`)
	b.see("its sync", `document.querySelector('[data-table=sync] [data-mode=async]')`)

	// A node that takes its rules from elsewhere says where, and has nothing to sign in to.
	elsewhere := openBrowser(t, "http://"+f.node.admin)
	elsewhere.open("/")
	elsewhere.see("the rules service", fmt.Sprintf(`document.querySelector('main a[href^=%q]')`, "http://"+f.service.admin))
	elsewhere.see("its sync", `document.querySelector('[data-table=sync] [data-mode=async]')`)
	if got := ask[string](elsewhere, "document.querySelector('header').innerText"); strings.Contains(got, "Sign in") {
		t.Errorf("a node without a rules service has %q, want nothing to sign in to", got)
	}
	if got := elsewhere.complained("404"); len(got) > 0 {
		t.Errorf("the console got %q", got)
	}
}

func (f *consoleFleet) signsIn(t *testing.T) {
	b := f.browser
	b.open("/signin")
	b.signIn("hg_nobody_0000")
	b.seeText("The token is invalid")
	if file := ask[int](b, "sessionStorage.length"); file != 0 {
		t.Errorf("%d things are kept of a wrong token", file)
	}
	b.signIn(testAdminToken)
	b.see("the overview", `document.querySelector("h1")?.textContent === "Overview"`)
	if file := ask[string](b, "JSON.stringify(localStorage) + document.cookie + location.href"); strings.Contains(file, testAdminToken) {
		t.Errorf("the token is in %s", file)
	}
	browse(b, chromedp.Reload())
	b.see("the overview again", `document.querySelector("h1")?.textContent === "Overview"`)

	b.click("button", "Sign out")
	b.seeText("Sign in to see all nodes")
	if file := ask[int](b, "sessionStorage.length"); file != 0 {
		t.Errorf("%d things are kept after signing out", file)
	}
	b.open("/signin")
	b.signIn(testAdminToken)
	b.see("the overview", `document.querySelector("h1")?.textContent === "Overview"`)
}

// overAdmit sends requests to both nodes until each has admitted units above a limit, because updates of the other came
// too late.
func (f *consoleFleet) overAdmit(t *testing.T) {
	t.Helper()
	n := 0
	await.NoError(t, "more than the limit to pass", func() error {
		n++
		var both sync.WaitGroup
		for _, p := range []*process{f.service, f.node} {
			c := newClient(t, p.gateway, "X-API-Key", fmt.Sprintf("client-%d", n))
			both.Go(func() {
				for range 25 {
					if response, err := c.ask("/told"); err == nil && response.StatusCode == http.StatusTooManyRequests {
						return
					}
				}
			})
		}
		both.Wait()
		if f.node.metric(`headgate_sync_units_total{kind="over",mode="async"}`) == 0 || f.service.metric(`headgate_sync_units_total{kind="over",mode="async"}`) == 0 {
			return errors.New("a node has admitted nothing above the limit")
		}
		return nil
	})
}

func (f *consoleFleet) figures(t *testing.T) {
	b := f.browser
	b.open("/fleet")
	b.see("two nodes", `document.querySelectorAll('[data-table=nodes] tbody tr').length === 2`)
	nodes := []*process{f.service, f.node}
	await.NoError(t, "the figures of the metrics", func() error {
		sum := 0.0
		for i, name := range []string{"first", "second"} {
			row := fmt.Sprintf(`[data-table=sync] tr[data-node=%s][data-mode=async]`, name)
			shown := func(label string) float64 {
				return ask[float64](b, fmt.Sprintf(`Number(document.querySelector('%s [data-label=%q]')?.dataset.value ?? -1)`, row, label))
			}
			metric := func(series string) float64 { return nodes[i].metric(series) }
			over := metric(`headgate_sync_units_total{kind="over",mode="async"}`)
			sum += over
			for _, f := range []struct {
				label     string
				want, off float64
			}{
				{"Over-admission", over, 0},
				{"Max. of one key", metric(`headgate_sync_over_max_units{mode="async"}`), 0},
				{"Lag", 1000 * metric(`headgate_sync_lag_seconds{mode="async",stat="mean"}`), 0.002},
				{"Max. lag", 1000 * metric(`headgate_sync_lag_seconds{mode="async",stat="max"}`), 0.002},
			} {
				if got := shown(f.label); f.want <= 0 || math.Abs(got-f.want) > f.off {
					return fmt.Errorf("%s, %s: the page has %v, the metrics %v", name, f.label, got, f.want)
				}
			}
			if text := ask[string](b, fmt.Sprintf(`document.querySelector('%s [data-label="Over-admission"]').textContent`, row)); text != fmt.Sprint(over) {
				return fmt.Errorf("%s: %v units over limits are written as %q", name, over, text)
			}
		}
		if got := ask[string](b, `document.querySelector('.region [data-mode=async] dl > div:nth-child(2) .figure').textContent`); got != fmt.Sprint(sum) {
			return fmt.Errorf("the region has %s units over limits, its nodes %v", got, sum)
		}
		return nil
	})
	for what, is := range map[string]string{
		"the region":            `document.querySelector('.region h2').textContent === "eu"`,
		"that both have a peer": `[...document.querySelectorAll('[data-label="Peers"]')].every((e) => e.textContent === "2 of 2")`,
		"that sync is up":       `[...document.querySelectorAll('[data-table=sync] [data-label=Sync]')].every((e) => e.textContent === "up")`,
		"that stores are well":  `[...document.querySelectorAll('[data-table=nodes] [data-label=Store]')].every((e) => e.textContent === "ok")`,
		"units given by leases": `Number(document.querySelector('[data-table=leases] tr[data-node=second] [data-label="Units granted"]').textContent) > 0`,
		"the rate of requests":  `/^[\d.]+$/.test(document.querySelector('.figures .figure').textContent)`,
		"that nothing is wrong": `document.querySelector('.summary').textContent.includes("no problems")`,
	} {
		b.see(what, is)
	}
}

func (f *consoleFleet) pages(t *testing.T) {
	b := f.browser
	b.open("/rules")
	b.see("the rules", `document.querySelector('[data-table=rules] a[href="/rules/told"]')`)
	b.open("/rules?q=lease")
	b.see("one that fits", `document.querySelectorAll('[data-table=rules] tbody tr').length === 1 && document.querySelector('a[href="/rules/leased"]')`)
	b.open("/rules/told")
	b.see("its text", `document.querySelector('pre.text')?.textContent.includes("limits: [20/d]")`)
	b.see("its history", `document.querySelectorAll('.history li').length === 2`)
	b.see("what changed last", `document.querySelector('.diff .add')?.textContent.includes("again") && document.querySelector('.diff .del')`)
	b.open("/rules/none")
	b.seeText("There is no rule")

	b.open("/explain")
	b.write("#x-url", "https://example.com/told")
	b.write("#x-headers", "X-API-Key: client-1")
	b.click("main button", "Explain")
	b.seeText("It would be denied with 429.")
	b.see("which rule", `document.querySelector('[data-table=explained] th a').textContent === "told"`)

	b.open("/clients")
	b.write("#k-name-0", "api_key")
	b.write("#k-value-0", "client-1")
	b.click("main button", "Look up")
	b.see("what is left on each node", `document.querySelectorAll('[data-table=keys] tbody tr').length === 2`)
	if at := ask[string](b, "location.href"); strings.Contains(at, "client-1") {
		t.Errorf("the address is %s, want no client in it", at)
	}
	b.open("/signin/nothing")
	if got := ask[string](b, "document.body.innerText"); !strings.Contains(got, "404") {
		t.Errorf("an address that there is not is answered with %q", got)
	}
}

func (f *consoleFleet) unknown(t *testing.T) {
	putRule(t, f.at, "shared", `{"id":"shared","when":{"path":"/shared"},"key":["user"],"limits":["5/h"]}`)
	await.NoError(t, "the rule in force", func() error {
		for _, p := range []*process{f.service, f.node} {
			if got := p.metric("headgate_rules"); got != 3 {
				return fmt.Errorf("%v rules, want 3", got)
			}
		}
		return nil
	})
	b := f.browser
	look := func() {
		b.open("/clients")
		b.write("#k-name-0", "user")
		b.write("#k-value-0", "acme")
		b.click("main button", "Look up")
	}
	look()
	b.see("what is left", `document.querySelector('[data-table=keys] [data-label=Remaining]')?.textContent === "5 of 5"`)
	f.redis.Kill()
	look()
	b.see("that it is unknown", `document.querySelector('[data-table=keys] [data-label=Remaining]')?.textContent === "unknown"`)
	b.seeText("is not known: Redis " + f.redis.Addr() + " is unreachable")
	b.see("no names of packages", `!/redisstore|engine:/.test(document.querySelector("main").innerText)`)
}

func (f *consoleFleet) harmless(t *testing.T) {
	b := f.browser
	// A holder of a node's token may send any text as its heartbeat.
	beat := map[string]any{"version": evil, "region": evil, "store": evil, "error": evil, "revision": 1}
	if err := f.at.Do(t.Context(), http.MethodPut, "/v1/nodes/odd", url.Values{}, beat, nil); err != nil {
		t.Fatal(err)
	}
	b.open("/fleet")
	b.see("the odd node", `document.querySelector('[data-table=nodes] tr[data-node=odd]')?.textContent.includes("<script>window.harmed=1</script>")`)
	b.see("its region", `[...document.querySelectorAll('.region h2')].some((e) => e.textContent.includes("<img src=x"))`)
	b.open("/rules")
	b.see("the description", `document.querySelector('[data-table=rules]')?.textContent.includes("<script>window.harmed=1</script>")`)
	b.open("/rules/told")
	b.see("the history", `document.querySelector('.diff')?.textContent.includes("<script>")`)
	b.open("/rules/" + url.PathEscape("<script>window.harmed=1<"))
	b.see("a rule that nobody has", `document.querySelector("h1")?.textContent.includes("<script>")`)
	if ask[bool](b, "'harmed' in window") {
		t.Error("a text has become a script")
	}
	if got := b.complained("401", "404"); len(got) > 0 {
		t.Errorf("the console got %q", got)
	}
}

func (f *consoleFleet) editsAtOnce(t *testing.T) {
	b := f.browser
	b.open("/rules/leased")
	b.see("the rule", `document.querySelector("pre.text")`)
	b.click("main button", "Edit")
	b.see("the editor", `document.activeElement?.id === "rule-text"`)
	b.write("#rule-text", "id: leased\nlimits: [ten/d]\n")
	b.click("main button", "Review")
	b.seeText("Line 2, limits[0]")

	b.write("#rule-text", "id: renamed\nlimits: [1000/d]\n")
	b.click("main button", "Review")
	b.seeText("A rule cannot be renamed")

	b.write("#rule-text", "# a comment\nid: leased\nwhen: {path: /leased}\nlimits: [3000/d]\nconsistency: lease\n")
	b.click("main button", "Review")
	b.see("what would change", `document.querySelector(".review .diff .del").textContent.includes("1000/d") && document.querySelector(".review .diff .add").textContent.includes("3000/d")`)
	putRule(t, f.at, "leased", strings.Replace(consoleLeased, "1000/d", "2000/d", 1)) // somebody else is faster
	b.click("main button", "Save")
	b.seeText("Somebody else has changed it")
	b.see("the difference", `document.querySelector(".review .notice .del").textContent.includes("2000/d") && document.querySelector(".review .notice .add").textContent.includes("3000/d")`)
	b.click("main button", "Keep my version")
	b.see("what would change now", `!document.querySelector(".review .notice") && document.querySelector(".review .diff .del").textContent.includes("2000/d")`)
	b.click("main button", "Save")
	b.see("what was saved", `document.querySelector("pre.text")?.textContent.includes("3000/d")`)
	if got := b.complained("401", "404", "412", "422"); len(got) > 0 {
		t.Errorf("the console got %q", got)
	}
}

func (f *consoleFleet) away(t *testing.T) {
	b := f.browser
	b.open("/fleet")
	b.see("the fleet", `document.querySelector("[data-table=nodes]")`)
	if code := f.service.stop(); code != 0 {
		t.Errorf("the service ended with %d", code)
	}
	b.seeText("The node does not respond.")
	b.see("what was known", `document.querySelector("[data-table=nodes] tr[data-node=second]")`)
	b.see("that it is old", `document.querySelector(".fresh.stale")`)
}
