// What the keyboard does besides what browsers do.

import { useEffect, useRef } from "preact/hooks";

import { go, menu } from "../route.ts";

/** A letter that follows "g" within this is taken for a page. */
const soon = 1_500;

export function Shortcuts({ api }: { api: boolean }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    let began = 0;
    const press = (event: KeyboardEvent): void => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || dialog.current?.open || isWriting(event.target)) return;
      const page = event.timeStamp - began < soon ? menu.find((m) => m.key === event.key) : undefined;
      began = event.key === "g" ? event.timeStamp : -soon;
      if (page) go(page.path);
      else if (event.key === "?") dialog.current?.showModal();
      else if (event.key === "/") document.querySelector<HTMLInputElement>("[data-search]")?.focus();
      else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
  return (
    <>
      <footer>
        <button type="button" class="quiet" onClick={() => dialog.current?.showModal()}>
          Keys <kbd>?</kbd>
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
            <dd>Find</dd>
          </div>
          <div>
            <dt>
              <kbd>↓</kbd> <kbd>↑</kbd>
            </dt>
            <dd>From rule to rule</dd>
          </div>
          <div>
            <dt>
              <kbd>?</kbd>
            </dt>
            <dd>This list</dd>
          </div>
        </dl>
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
