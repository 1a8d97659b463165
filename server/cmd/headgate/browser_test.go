package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/headgate/headgate/internal/await"
)

// A browser is a tab of a real browser.
type browser struct {
	t    *testing.T
	page context.Context
	base string

	mu         sync.Mutex
	complaints []string // warnings and errors in the browser's console
}

// openBrowser starts Chromium. Paths of pages are relative to the URL base.
func openBrowser(t *testing.T, base string) *browser {
	t.Helper()
	var program string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Fatal("there is no chromium on the PATH: run tools/need chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.WSURLReadTimeout(await.Timeout))
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx)
	b := &browser{t: t, page: ctx, base: base}
	messages := chromedp.Console(ctx)
	var listening sync.WaitGroup
	listening.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			b.hear(m)
		}
	})
	t.Cleanup(func() {
		stop()
		listening.Wait()
	})
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil { // without a deadline, which would stop the browser
		t.Fatalf("start %s: %v", program, err)
	}
	b.width(1280)
	return b
}

// newTab opens another tab of the same browser, in which the same user is signed in.
func (b *browser) newTab() *browser {
	b.t.Helper()
	ctx, stop := chromedp.NewContext(b.page)
	b.t.Cleanup(stop)
	tab := &browser{t: b.t, page: ctx, base: b.base}
	if err := chromedp.Do(ctx, chromedp.Navigate(b.base+"/healthz")); err != nil { // without a deadline, which would close the tab
		b.t.Fatal(err)
	}
	stored := ask[string](b, "JSON.stringify(sessionStorage)")
	ask[bool](tab, "(Object.assign(sessionStorage, "+stored+"), true)")
	return tab
}

// as makes failures those of a subtest.
func (b *browser) as(t *testing.T) { b.t = t }

func (b *browser) hear(m chromedp.ConsoleMessage) {
	if m.Type != chromedp.ConsoleError && m.Type != chromedp.ConsoleWarning && !m.IsException() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = append(b.complaints, strings.TrimSpace(m.String()+" "+m.URL))
}

// complained returns the messages in the browser's console, except those that contain one of the texts.
func (b *browser) complained(except ...string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var left []string
next:
	for _, text := range b.complaints {
		for _, known := range except {
			if strings.Contains(text, known) {
				continue next
			}
		}
		left = append(left, text)
	}
	return left
}

// browse runs an action.
func browse[T any](b *browser, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.page, await.Timeout)
	defer cancel()
	result, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

// open loads a page. A node that gets no core in time does not serve the console for a while.
func (b *browser) open(path string) {
	b.t.Helper()
	await.NoError(b.t, "the console of a node that is overloaded", func() error {
		browse(b, chromedp.Navigate(b.base+path))
		if ask[bool](b, `document.body?.innerText.includes("is overloaded and does not serve the console") ?? false`) {
			return errors.New("the node does not serve it yet")
		}
		return nil
	})
}

// ask returns the value of a JavaScript expression.
func ask[T any](b *browser, expression string) T {
	b.t.Helper()
	return browse(b, chromedp.Evaluate[T](expression))
}

// see waits until a JavaScript expression is true. An expression that throws is false: its element may not exist yet.
// The page itself waits, which is far cheaper than asking it again and again.
func (b *browser) see(what, expression string) {
	b.t.Helper()
	wait := `new Promise((done) => {
  const deadline = performance.now() + 2000;
  const check = () => {
    let not = "it is false";
    try { if (` + expression + `) not = ""; } catch (err) { not = String(err); }
    if (not === "" || performance.now() > deadline) done(not === "" ? "" : not + "; the page is " + JSON.stringify(document.body.innerText.slice(0, 600)));
    else setTimeout(check, 10);
  };
  check();
})`
	await.NoError(b.t, "to see "+what, func() error {
		ctx, cancel := context.WithTimeout(b.page, await.Timeout)
		defer cancel()
		not, err := chromedp.Run(ctx, chromedp.Evaluate[string](wait, chromedp.EvalAwaitPromise))
		if err == nil && not != "" {
			err = errors.New(not)
		}
		return err // another page may have been opened meanwhile
	})
}

// seeText waits until the page contains a text.
func (b *browser) seeText(text string) {
	b.t.Helper()
	b.see(text, fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// press types keys.
func (b *browser) press(keys string) {
	b.t.Helper()
	browse(b, chromedp.KeyEvent(keys))
}

// chord types keys that must follow each other quickly, again until an expression is true: on a busy machine they may
// be too slow.
func (b *browser) chord(keys, what, expression string) {
	b.t.Helper()
	await.NoError(b.t, "to see "+what, func() error {
		if b.press(keys); ask[bool](b, "!!("+expression+")") {
			return nil
		}
		return fmt.Errorf("%s leads to %s", keys, ask[string](b, "location.href"))
	})
}

// write replaces the text of a field.
func (b *browser) write(field, text string) {
	b.t.Helper()
	b.see("the field "+field, fmt.Sprintf("document.querySelector(%q)", field))
	ask[bool](b, fmt.Sprintf("(() => { const e = document.querySelector(%q); e.focus(); e.select(); return true; })()", field))
	b.press(text)
}

// click focuses and clicks the first element that matches a selector and contains a text.
func (b *browser) click(selector, text string) {
	b.t.Helper()
	find := fmt.Sprintf("[...document.querySelectorAll(%q)].find((e) => e.textContent.includes(%q))", selector, text)
	b.see(selector+" "+text, find)
	ask[bool](b, "((e) => (e.focus(), e.click(), true))("+find+")")
}

// width sets the width of the window. 360 is a small phone.
func (b *browser) width(pixels int64) {
	b.t.Helper()
	browse(b, chromedp.EmulateViewport(pixels, 800))
}

// colours sets the preferred colour scheme: light or dark.
func (b *browser) colours(scheme string) {
	b.t.Helper()
	preferred := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if _, err := chromedp.Call(b.page, emulation.SetEmulatedMedia, preferred); err != nil {
		b.t.Fatal(err)
	}
}

// signIn submits a token.
func (b *browser) signIn(token string) {
	b.t.Helper()
	b.write("#token", token+"\r")
}

// ensureSignedIn signs in with a token, unless somebody is signed in.
func (b *browser) ensureSignedIn(token string) {
	b.t.Helper()
	b.open("/")
	if ask[int](b, "sessionStorage.length") > 0 {
		return
	}
	b.open("/signin")
	b.signIn(token)
	b.see("the overview", `document.querySelector("h1")?.textContent === "Overview"`)
}
