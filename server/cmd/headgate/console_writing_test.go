package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/control/remote"
)

// The tokens that tests sign in with, one of each role.
const (
	consoleViewer = "looker"
	consoleEditor = "writer"
	consoleAdmin  = "keeper"
)

// A consoleDesk is a rules service without further nodes, and a browser that shows its console. Tests write in the
// console and check the result in the service.
type consoleDesk struct {
	service *process
	at      *remote.Client
	browser *browser
	tokens  map[string]string
}

// The console makes changes, in a real browser, for tokens whose role allows them.
func TestConsoleWrites(t *testing.T) {
	t.Parallel()
	d := &consoleDesk{tokens: map[string]string{}}
	d.service = serve(t, onFreePort("--admin-token-file", newFile(t, "admin-token", testAdminToken+"\n"), "--node-id", "only")...)
	d.at = rulesService(t, d.service)
	rules := json.RawMessage(`{"rules":[{"id":"per-user","key":["user"],"limits":["20/d"]},{"id":"per-path","key":["user","path"],"limits":["5/d"]}]}`)
	if err := d.at.Do(t.Context(), http.MethodPost, "/v1/rules:apply", url.Values{"prune": {""}}, rules, nil); err != nil {
		t.Fatal(err)
	}
	for id, role := range map[string]string{consoleViewer: "viewer", consoleEditor: "editor", consoleAdmin: "admin"} {
		var made struct{ Secret string }
		if err := d.at.Do(t.Context(), http.MethodPost, "/v1/tokens", nil, map[string]any{"id": id, "role": role, "namespaces": []string{"*"}}, &made); err != nil {
			t.Fatal(err)
		}
		d.tokens[id] = made.Secret
	}
	d.browser = openBrowser(t, "http://"+d.service.admin)

	// The parts run one after the other in one tab. Each begins where the previous one ended.
	for _, part := range []struct {
		name string
		run  func(*consoleDesk, *testing.T)
	}{
		{"ShowsAViewerNoForbiddenButtons", (*consoleDesk).viewer},
		{"CreatesARuleByKeyboardWithErrorsAtFields", (*consoleDesk).makesRule},
		{"CreatesARuleAsText", (*consoleDesk).makesText},
		{"DeletesARuleUnlessItHasChanged", (*consoleDesk).deletesRule},
		{"CreatesChangesAndEndsAnOverride", (*consoleDesk).overrides},
		{"LooksUpAndResetsAClient", (*consoleDesk).resets},
		{"StopsEnforcingARuleForATime", (*consoleDesk).stopsEnforcing},
		{"RegistersChangesAndImportsClients", (*consoleDesk).registersClients},
		{"ShowsWhoChangedWhat", (*consoleDesk).audit},
		{"ShowsATokenOnceAndRevokesIt", (*consoleDesk).tokensMadeAndRevoked},
		{"CreatesAWebhookForAlerts", (*consoleDesk).webhook},
		{"FormsFitASmallScreenInLightAndDark", (*consoleDesk).fits},
		{"KeepsShortcutsOff", (*consoleDesk).shortcuts},
	} {
		if !t.Run(part.name, func(t *testing.T) { d.browser.as(t); part.run(d, t) }) {
			return
		}
	}
	if got := d.browser.complained("401", "404", "409", "412", "422"); len(got) > 0 {
		t.Errorf("the console got %q", got)
	}
}

// as signs in as somebody else.
func (d *consoleDesk) as(id string) {
	d.browser.t.Helper()
	b := d.browser
	b.open("/signin")
	b.see("the page", `document.querySelector("#token")`)
	if ask[bool](b, `sessionStorage.length > 0`) {
		b.click("header button", "Sign out")
		b.see("that nobody is signed in", `!document.querySelector(".who")`)
		b.open("/signin")
	}
	b.signIn(d.tokens[id])
	b.see(id, fmt.Sprintf(`document.querySelector(".who")?.textContent.includes(%q)`, id))
}

// get returns what the service says.
func (d *consoleDesk) get(t *testing.T, path string, query url.Values) string {
	t.Helper()
	var said json.RawMessage
	if err := d.at.Do(t.Context(), http.MethodGet, path, query, nil, &said); err != nil {
		return err.Error()
	}
	return string(said)
}

// has waits until the service says something that it does once a change is made.
func (d *consoleDesk) has(t *testing.T, path string, texts ...string) {
	t.Helper()
	await.NoError(t, path+" to have "+strings.Join(texts, ", "), func() error {
		got := d.get(t, path, nil)
		for _, want := range texts {
			if !strings.Contains(got, want) {
				return fmt.Errorf("it is %s", got)
			}
		}
		return nil
	})
}

// asked waits for a question that names something, with the focus on the answer that changes nothing.
func (b *browser) asked(title string) {
	b.t.Helper()
	b.see("the question "+title, fmt.Sprintf(`document.querySelector("dialog.confirm[open] h2")?.textContent.includes(%q) && document.activeElement.closest(".confirm .row button:first-child")`, title))
}

// buttons are the texts of what can be pressed in a page.
func (b *browser) buttons() string {
	b.t.Helper()
	return ask[string](b, `[...document.querySelectorAll("main button, main .button, nav a")].map((e) => e.textContent.trim()).join("|")`)
}

func (d *consoleDesk) viewer(t *testing.T) {
	b := d.browser
	changes := []string{"New", "Edit", "Delete", "Reset", "Change", "End", "Block", "Revoke", "Audit", "Tokens"}
	override := map[string]any{"id": "looked-at", "client": map[string]string{"user": "seen"}, "unlimited": true, "for": "1h"}
	if err := d.at.Do(t.Context(), http.MethodPost, "/v1/overrides", nil, override, nil); err != nil {
		t.Fatal(err)
	}
	look := func() map[string]string {
		seen := map[string]string{}
		for path, shows := range map[string]string{
			"/rules": "[data-table=rules]", "/rules?new": "main h1", "/rules/per-user": "pre.text", "/overrides": "[data-table=overrides]", "/overrides?new": "main h1", "/clients": "#k-value-0",
		} {
			b.open(path)
			b.see(path, fmt.Sprintf("document.querySelector(%q)", shows))
			if path == "/clients" {
				b.write("#k-value-0", "acme")
				b.click("main button", "Look up")
				b.see("what was found", `document.querySelector("[data-table=keys]")`)
			}
			seen[path] = b.buttons()
		}
		return seen
	}
	d.as(consoleViewer)
	for path, seen := range look() {
		for _, refused := range changes {
			if strings.Contains(seen, refused) {
				t.Errorf("%s: a viewer sees %q, want nothing that a viewer may not do, as %s", path, seen, refused)
			}
		}
	}
	b.open("/tokens")
	b.seeText("Only admins can see this page.")
	d.as(consoleEditor)
	all := fmt.Sprint(look())
	for _, want := range changes[:7] {
		if !strings.Contains(all, want) {
			t.Errorf("an editor sees %s, want %s", all, want)
		}
	}
	if strings.Contains(all, "Tokens") || strings.Contains(all, "Audit") {
		t.Errorf("an editor sees %s, want nothing of admins'", all)
	}
}

// Where a file has the rules, an admin sees no button that would change them either, and why.
func TestConsoleOfAFileChangesNoRules(t *testing.T) {
	t.Parallel()
	rules := newFile(t, "rules.yaml", "rules: [{ id: per-user, key: [user], limits: [20/d] }]\n")
	p := serve(t, onFreePort("--admin-token-file", newFile(t, "admin-token", testAdminToken+"\n"), "--rules", rules)...)
	b := openBrowser(t, "http://"+p.admin)
	b.open("/rules")
	b.signIn(testAdminToken)
	b.seeText("Rules cannot be changed here: the rules come from the file " + rules)
	seen := b.buttons()
	b.click("[data-table=rules] a", "per-user")
	b.see("the rule", `document.querySelector("pre.text")`)
	seen += b.buttons()
	for _, refused := range []string{"New rule", "Edit", "Delete", "Overrides"} {
		if strings.Contains(seen, refused) {
			t.Errorf("%q can be pressed in %q", refused, seen)
		}
	}
	b.click("nav a", "Clients")
	b.write("#k-value-0", "acme"+kb.Enter)
	b.see("that counters can be reset", `document.querySelector("[data-table=keys] button")?.textContent.includes("Reset")`)
	if got := b.buttons(); strings.Contains(got, "other limits") {
		t.Errorf("there are no overrides, and yet there is %q", got)
	}
}

// wrongAt waits until something is said to be wrong with a field, which has the focus.
func (b *browser) wrongAt(field, want string) {
	b.t.Helper()
	b.see(want+" at "+field, fmt.Sprintf(`(() => {
		const e = document.querySelector(%q);
		const said = (e?.getAttribute("aria-describedby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent).join(" ");
		return e?.getAttribute("aria-invalid") === "true" && said.includes(%q);
	})()`, field, want))
}

func (d *consoleDesk) makesRule(t *testing.T) {
	b := d.browser
	b.open("/rules")
	b.see("the rules", `document.querySelector("[data-table=rules]")`)
	b.press("/")
	b.see("the search", `document.activeElement.type === "search"`)
	ask[bool](b, `(document.addEventListener("submit", () => { window.submitted = true; }, true), true)`)
	b.press(kb.Tab + kb.Enter)
	b.see("the form, with the focus in its first field", `document.activeElement.id === "n-id"`)
	if ask[bool](b, `window.submitted === true`) {
		t.Error("the key press that opens the form submits it")
	}
	b.press("per user!" + kb.Tab + "it is tried" + kb.Tab + kb.Enter) // and which requests
	b.see("a row for an attribute", `document.querySelector("#n-when-value-0")`)
	ask[bool](b, `(document.querySelector("#n-when-name-0").focus(), true)`)
	b.press(kb.Tab + "/orders/[" + kb.Tab + kb.Tab + kb.Tab + "ten/s" + kb.Tab + "user" + kb.Enter)
	b.wrongAt("#n-id", "letters, digits")
	b.wrongAt("#n-when-value-0", "wildcards")
	b.wrongAt("#n-limits", "a whole number")
	b.see("the focus on the first of them", `document.activeElement.id === "n-id"`)

	b.write("#n-id", "per-user")
	b.write("#n-when-value-0", "/orders/**")
	b.write("#n-limits", "10/s burst 20, 1000/h"+kb.Enter)
	b.wrongAt("#n-id", "no other rule has")
	b.write("#n-id", "orders"+kb.Enter)
	b.see("what will be, before it is", `document.activeElement.textContent === "Save" && document.querySelector(".review .diff .add")?.textContent.includes("id: orders")`)
	if got := d.get(t, "/v1/rules/orders", nil); !strings.Contains(got, "There is no rule") {
		t.Errorf("it is written before it was looked at: %s", got)
	}
	b.press(kb.Enter)
	b.see("the rule, and that it was made", `location.pathname === "/rules/orders" && document.querySelector("pre.text")?.textContent.includes("limits: [10/s burst 20, 1000/h]") && document.querySelector(".history .badge")?.textContent === "created"`)
	d.has(t, "/v1/rules/orders", `"when":{"path":"/orders/**"}`, `"key":["user"]`, `"description":"it is tried"`, `"by":"writer"`)
}

func (d *consoleDesk) makesText(t *testing.T) {
	b := d.browser
	b.open("/rules?new")
	b.write("#n-id", "as-text")
	b.write("#n-limits", "3/s")
	b.click("main button", "Edit as text")
	b.see("what was written, as text", `document.activeElement.id === "rule-text" && document.activeElement.value === "id: as-text\nlimits: [3/s]\n"`)
	b.write("#rule-text", "id: as-text\nlimits: [3/s]\npenalty: {after: many}\n")
	b.click("main button", "Review")
	b.seeText("Line 3")
	b.see("the line, marked", `(({ value, selectionStart, selectionEnd }) => value.slice(selectionStart, selectionEnd))(document.querySelector("#rule-text")) === "penalty: {after: many}"`)
	b.write("#rule-text", "id: as-text\nkey: [user]\nlimits: [3/s]\npenalty: {after: 100 denials in 1m, limits: [1/s], for: 10m}\n")
	b.click("main button", "Review")
	b.see("what will be", `document.querySelector(".review .diff")?.textContent.includes("+penalty:")`)
	b.click("main button", "Save")
	b.see("the rule", `location.pathname === "/rules/as-text" && document.querySelector("pre.text")`)
	d.has(t, "/v1/rules/as-text", `"penalty":`)
}

func (d *consoleDesk) deletesRule(t *testing.T) {
	b := d.browser
	b.click("main button", "Delete")
	b.asked("Delete the rule as-text?")
	b.press("gf") // letters are for pages only where nothing is asked
	b.press(kb.Escape)
	b.see("that nothing was done", `!document.querySelector("dialog.confirm") && location.pathname === "/rules/as-text" && document.activeElement.textContent.includes("Delete")`)

	b.press(kb.Enter)
	b.asked("Delete the rule as-text?")
	putRule(t, d.at, "as-text", `{"id":"as-text","limits":["4/s"]}`) // somebody else is faster
	b.click("dialog button", "Delete as-text")
	b.seeText("Somebody else has changed it")
	b.see("what is there", `document.querySelector("dialog .diff").textContent.includes("-limits: [4/s]")`)
	d.has(t, "/v1/rules/as-text", "4/s")
	b.write("#delete-note", "nobody needs it")
	b.click("dialog button", "Delete as-text")
	b.see("that it is gone, with its history", `document.querySelector("main .notice.warn")?.textContent.includes("There is no rule") && document.querySelector(".history .badge")?.textContent === "deleted"`)
	b.see("the focus on the title", `document.activeElement.tagName === "H1"`)
	b.seeText("“nobody needs it”")
	if got := d.get(t, "/v1/rules/as-text", nil); !strings.Contains(got, "There is no rule") {
		t.Errorf("it is still there: %s", got)
	}
}

func (d *consoleDesk) fits(t *testing.T) {
	b := d.browser
	forms := []struct {
		path, shows string
		press       []string // buttons
	}{
		{"/rules?new", "#n-id", []string{"Add a condition", "Review"}},
		{"/rules/per-user", "pre.text", []string{"Edit", "Review"}},
		{"/rules/per-user", "pre.text", []string{"Delete"}},
		{"/overrides", "[data-table=overrides]", nil},
		{"/overrides?new", "#o-limits", []string{"Add an attribute", "Review"}},
		{"/audit", "[data-table=audit]", nil},
		{"/tokens", "[data-table=tokens]", []string{"Revoke"}},
		{"/tokens?new", "#t-id", nil},
	}
	defer b.width(1280)
	defer b.colours("light")
	for _, f := range forms {
		b.width(1280)
		b.open(f.path)
		b.see(f.path, fmt.Sprintf("document.querySelector(%q)", f.shows))
		for _, press := range f.press {
			b.click("main button", press)
		}
		switch {
		case len(f.press) > 0 && f.press[len(f.press)-1] != "Review":
			b.see("a question", `document.querySelector("dialog.confirm[open]")`)
		case len(f.press) > 0:
			b.see("an answer", `document.querySelector(".wrong, .review")`)
		}
		for _, width := range []int64{1280, 360} {
			b.width(width)
			if got := ask[int](b, "document.documentElement.scrollWidth"); got > int(width) {
				t.Errorf("%s is %d wide on a screen of %d", f.path, got, width)
			}
			for _, scheme := range []string{"light", "dark"} {
				b.colours(scheme)
				for _, pale := range ask[[]string](b, tooPale) {
					t.Errorf("%s in %s: contrast %s", f.path, scheme, pale)
				}
			}
		}
		for _, wrong := range ask[[]string](b, shapeless) { // while the window is narrow
			t.Errorf("%s: %s", f.path, wrong)
		}
	}
}

func (d *consoleDesk) shortcuts(t *testing.T) {
	b := d.browser
	b.open("/rules")
	b.see("the rules", `document.querySelector("[data-table=rules]")`)
	b.press("?")
	b.see("the list of keys", `document.querySelector("dialog[open] input[type=checkbox]")?.checked`)
	b.click("dialog[open] input[type=checkbox]", "")
	b.press(kb.Escape)
	b.see("it closed", `!document.querySelector("dialog[open]")`)
	still := func(when string) {
		t.Helper()
		b.press("gf/?")
		if got := ask[string](b, `location.pathname + " " + (document.activeElement.type ?? "") + " " + !!document.querySelector("dialog[open]")`); !strings.HasPrefix(got, "/rules ") || strings.Contains(got, "search") || strings.Contains(got, "true") {
			t.Errorf("%s: keys that are off lead to %q", when, got)
		}
	}
	still("at once")
	b.open("/rules")
	b.see("the rules", `document.querySelector("[data-table=rules]")`)
	still("after the page was loaded again")
	b.click("footer button", "Keys")
	b.see("that they are off", `document.querySelector("dialog[open] input[type=checkbox]")?.checked === false`)
	b.click("dialog[open] input[type=checkbox]", "")
	b.press(kb.Escape)
	b.see("it closed", `!document.querySelector("dialog[open]")`)
	b.chord("gf", "the fleet", `location.pathname === "/fleet"`)
}
