package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/headgate/headgate/internal/await"
)

// A browser is a page of a real one.
type browser struct {
	t    *testing.T
	page context.Context
	base string

	mu         sync.Mutex
	complaints []string // what the page's console has got: errors of scripts, and what the policy has stopped
}

// openBrowser starts a browser that looks at an address. Debian's package chromium has one, and make test installs it.
func openBrowser(t *testing.T, baseRevision string) *browser {
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
		chromedp.WSURLReadTimeout(await.Patience))
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx)
	b := &browser{t: t, page: ctx, base: baseRevision}
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
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil { // it is started without a deadline, which would end it
		t.Fatalf("start %s: %v", program, err)
	}
	b.width(1280)
	return b
}

// as has failures be those of a part of the test.
func (b *browser) as(t *testing.T) { b.t = t }

func (b *browser) hear(m chromedp.ConsoleMessage) {
	if m.Type != chromedp.ConsoleError && m.Type != chromedp.ConsoleWarning && !m.IsException() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = append(b.complaints, strings.TrimSpace(m.String()+" "+m.URL))
}

// complained returns what the console has got, but for answers that a test has provoked.
func (b *browser) complained(but ...string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var left []string
next:
	for _, text := range b.complaints {
		for _, known := range but {
			if strings.Contains(text, known) {
				continue next
			}
		}
		left = append(left, text)
	}
	return left
}

// browse has the browser do something, or fails.
func browse[T any](b *browser, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.page, await.Patience)
	defer cancel()
	is, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatal(err)
	}
	return is
}

// open loads a page again, as who types its address does.
func (b *browser) open(path string) {
	b.t.Helper()
	browse(b, chromedp.Navigate(b.base+path))
}

// ask returns what an expression of JavaScript is.
func ask[T any](b *browser, expression string) T {
	b.t.Helper()
	return browse(b, chromedp.Evaluate[T](expression))
}

// see waits until an expression of JavaScript is true. One that throws is not: what it asks about may be on its way.
func (b *browser) see(what, expression string) {
	b.t.Helper()
	await.NoError(b.t, "to see "+what, func() error {
		not := ask[string](b, `(() => { try { return (`+expression+`) ? "" : "it is not so"; } catch (err) { return String(err); } })()`)
		if not == "" {
			return nil
		}
		return fmt.Errorf("%s; the page is %q", not, ask[string](b, "document.body.innerText.slice(0, 600)"))
	})
}

// seeText waits until the page has a text.
func (b *browser) seeText(text string) {
	b.t.Helper()
	b.see(text, fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// press sends keys as a keyboard does.
func (b *browser) press(keys string) {
	b.t.Helper()
	browse(b, chromedp.KeyEvent(keys))
}

// chord presses keys that count only if they follow each other soon, which they may not on a busy machine, until
// something is seen.
func (b *browser) chord(keys, what, expression string) {
	b.t.Helper()
	await.NoError(b.t, "to see "+what, func() error {
		if b.press(keys); ask[bool](b, "!!("+expression+")") {
			return nil
		}
		return fmt.Errorf("%s leads to %s", keys, ask[string](b, "location.href"))
	})
}

// write replaces what is in a field by what is typed.
func (b *browser) write(field, text string) {
	b.t.Helper()
	b.see("the field "+field, fmt.Sprintf("document.querySelector(%q)", field))
	ask[bool](b, fmt.Sprintf("(() => { const e = document.querySelector(%q); e.focus(); e.select(); return true; })()", field))
	b.press(text)
}

// click clicks on what there is first by a selector, and has that text. It has the focus then, as with a mouse.
func (b *browser) click(selector, text string) {
	b.t.Helper()
	find := fmt.Sprintf("[...document.querySelectorAll(%q)].find((e) => e.textContent.includes(%q))", selector, text)
	b.see(selector+" "+text, find)
	ask[bool](b, "((e) => (e.focus(), e.click(), true))("+find+")")
}

// width makes the window that wide: 360 is a small phone.
func (b *browser) width(pixels int64) {
	b.t.Helper()
	browse(b, chromedp.EmulateViewport(pixels, 800))
}

// colours is what the system of the reader prefers: light or dark.
func (b *browser) colours(scheme string) {
	b.t.Helper()
	preferred := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if _, err := chromedp.Call(b.page, emulation.SetEmulatedMedia, preferred); err != nil {
		b.t.Fatal(err)
	}
}

// signIn writes a token where it is asked for.
func (b *browser) signIn(token string) {
	b.t.Helper()
	b.write("#token", token+"\r")
}
