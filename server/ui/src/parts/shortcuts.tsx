// Keyboard shortcuts.

import { useEffect, useRef, useState } from "preact/hooks";

import { readPreference, writePreference } from "../preferences.ts";
import { go, type MenuEntry } from "../route.ts";

/** Maximum time between "g" and the key of a page, in milliseconds. */
const soon = 1_500;

/** Users of speech input turn them off (WCAG 2.2, 2.1.4). */
const kept = "headgate-keys";

export function Shortcuts({ api, menu }: { api: boolean; menu: readonly MenuEntry[] }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [on, setOn] = useState(() => readPreference(kept) !== "off");
  const shown = useRef(menu);
  shown.current = menu;
  // The switch takes effect at once, not with the next rendering.
  const enabled = useRef(on);
  useEffect(() => {
    let began = -soon;
    const press = (event: KeyboardEvent): void => {
      if (!enabled.current || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") || isWriting(event.target)) return;
      const page = event.timeStamp - began < soon ? shown.current.find((m) => m.key === event.key) : undefined;
      began = event.key === "g" ? event.timeStamp : -soon;
      if (page) go(page.path);
      else if (event.key === "?") dialog.current?.showModal();
      else if (event.key === "/") document.querySelector<HTMLInputElement>("[data-search]")?.focus();
      else return;
      event.preventDefault();
    };
    const leave = (): void => dialog.current?.close(); // another page is shown below it
    document.addEventListener("keydown", press);
    addEventListener("popstate", leave);
    return () => {
      document.removeEventListener("keydown", press);
      removeEventListener("popstate", leave);
    };
  }, []);
  return (
    <>
      <footer>
        <button type="button" class="quiet" onClick={() => dialog.current?.showModal()}>
          Keys {on && <kbd>?</kbd>}
        </button>
        {api && <a href="/openapi.json">API</a>}
        <a href="/metrics">Metrics</a>
        <a href="/readyz">Health</a>
      </footer>
      <dialog ref={dialog} aria-labelledby="keys-title">
        <h2 id="keys-title">Keys</h2>
        <dl class="keys">
          {menu.map((m) => (
            <div key={m.key}>
              <dt>
                <kbd>g</kbd> <kbd>{m.key}</kbd>
              </dt>
              <dd>{m.name}</dd>
            </div>
          ))}
          <div>
            <dt>
              <kbd>/</kbd>
            </dt>
            <dd>Search</dd>
          </div>
          <div>
            <dt>
              <kbd>↓</kbd> <kbd>↑</kbd>
            </dt>
            <dd>Move between rows of a table</dd>
          </div>
          <div>
            <dt>
              <kbd>?</kbd>
            </dt>
            <dd>This list</dd>
          </div>
        </dl>
        <p>
          <label>
            <input
              type="checkbox"
              checked={on}
              onChange={(e) => {
                enabled.current = e.currentTarget.checked;
                setOn(e.currentTarget.checked);
                writePreference(kept, e.currentTarget.checked ? "on" : "off");
              }}
            />{" "}
            Single-key shortcuts
          </label>
        </p>
        <form method="dialog">
          <button type="submit" class="primary">
            Close
          </button>
        </form>
      </dialog>
    </>
  );
}

function isWriting(target: EventTarget | null): boolean {
  return target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;
}
