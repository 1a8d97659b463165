package main

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

func (d *consoleDesk) stopsEnforcing(t *testing.T) {
	b := d.browser
	const banner = `document.querySelector("[data-banner=enforcement]")`
	b.open("/rules/per-user")
	b.see("the rule", `document.querySelector("pre.text")`)
	b.click("main button", "Stop enforcing")
	b.asked("Stop enforcing limits?")
	b.write("#enforcement-note", "customers are blocked")
	b.click("dialog button", "Stop for 30")
	b.see("the banner", banner+`?.textContent.includes("the rule per-user") && `+banner+`.textContent.includes("customers are blocked")`)
	d.has(t, "/v1/enforcement", `"rule":"per-user"`, "customers are blocked")
	for _, path := range []string{"/", "/fleet", "/clients"} {
		b.open(path)
		b.see("the banner on "+path, banner)
		b.see("no contradiction", `!/no problems/i.test(document.body.innerText)`)
	}
	b.click("[data-banner=enforcement] button", "Enforce again")
	b.see("that the banner is gone", banner+` === null`)
	d.has(t, "/v1/enforcement", `"off":[]`)

	b.open("/")
	b.click("main button", "Stop enforcing")
	b.asked("Stop enforcing limits?")
	ask[bool](b, `(() => { const e = document.querySelector("#enforcement-scope"); e.value = "everything"; e.dispatchEvent(new Event("change", { bubbles: true })); return true; })()`)
	b.click("dialog button", "Stop for 30")
	b.see("the banner for all rules", banner+`?.textContent.includes("all rules")`)
	b.click("[data-banner=enforcement] button", "Enforce again")
	b.see("that the banner is gone", banner+` === null`)
}

func (d *consoleDesk) webhook(t *testing.T) {
	b := d.browser
	d.as(consoleAdmin)
	b.open("/webhooks")
	b.click("main button", "New webhook")
	b.write("#w-url", "https://hooks.example.com/pager")
	b.write("#w-id", "pager")
	ask[bool](b, `(() => { const e = document.querySelector("#w-events"); e.value = "alert"; e.dispatchEvent(new Event("change", { bubbles: true })); return true; })()`)
	b.click("main button", "Create")
	b.seeText("The webhook pager was created")
	b.see("its events", `document.querySelector("[data-table=webhooks] [data-label=Events]")?.textContent === "alerts"`)
	d.has(t, "/v1/webhooks", `"events":["alert"]`)
}

func (d *consoleDesk) registersClients(t *testing.T) {
	b := d.browser
	row := func(id, text string) string {
		return fmt.Sprintf(`[...document.querySelectorAll("[data-table=registered] tbody tr")].some((e) => e.querySelector("th").textContent === %q && e.textContent.includes(%q))`, id, text)
	}
	b.open("/clients?registered")
	b.seeText("No client is registered")
	b.click("main button", "Register a client")
	b.write("#c-id", "acme")
	ask[bool](b, `(() => { const e = document.querySelector("#c-grant"); e.value = "limits"; e.dispatchEvent(new Event("change", { bubbles: true })); return true; })()`)
	b.write("#c-limits", "lots"+kb.Enter)
	b.wrongAt("#c-limits", "want")
	b.write("#c-limits", "500/s")
	b.click("main button", "Add an attribute")
	b.write("#c-value-0", "acme, acme-test"+kb.Enter)
	b.see("the difference", `document.querySelector(".review .diff")?.textContent.includes("+limits: [500/s]")`)
	b.click("main button", "Save")
	b.see("the client", row("acme", "500/s"))
	d.has(t, "/v1/clients/acme", `"user":["acme","acme-test"]`, `"limits":["500/s"]`)

	b.click(`[data-table=registered] button[aria-label="Edit acme"]`, "Edit")
	b.write("#c-limits", "600/s"+kb.Enter)
	b.click("main button", "Save")
	b.see("the change", row("acme", "600/s"))

	// Three batches, then an error in the last line.
	b.click("main button", "Import")
	choose := func(lines string) {
		b.see("the field for a file", `document.querySelector("#import-file")`)
		ask[bool](b, `(() => { const list = new DataTransfer(); list.items.add(new File([`+lines+`], "clients.ndjson"));
  const e = document.querySelector("#import-file"); e.files = list.files; e.dispatchEvent(new Event("change", { bubbles: true })); return true; })()`)
	}
	const made = `Array.from({ length: 4500 }, (_, i) => JSON.stringify({ id: "client-" + i, limits: ["5/s"] }) + "\n").join("")`
	choose(made + ` + '{"id":"wrong","limits":["lots"]}\n'`)
	b.click("main button", "Import")
	b.seeText("Line 4501")
	b.seeText("4 000 created")
	choose(made)
	b.click("main button", "Import")
	b.seeText("500 created, 0 changed, 4 000 unchanged")
	b.click("main button", "Show the clients")
	b.see("all of them", `document.querySelector(".summary")?.textContent.includes("4 501")`)
	b.click("main button", "Next")
	b.see("the second page", `document.querySelector(".pager")?.textContent.includes("page 2")`)

	b.write("[data-search]", "client-4499"+kb.Enter)
	b.see("the one that was searched", `document.querySelectorAll("[data-table=registered] tbody tr").length === 1`)
	b.click(`[data-table=registered] button[aria-label="Delete client-4499"]`, "Delete")
	b.asked("Delete the client client-4499?")
	b.press(kb.Tab + kb.Tab)
	b.click("dialog button", "Delete client-4499")
	b.seeText("The client client-4499 is deleted.")
}
