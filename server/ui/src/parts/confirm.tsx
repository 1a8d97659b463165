// Asks before something is done that takes something away.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

import { useAttempt } from "../attempt.ts";
import { Wrong } from "./marks.tsx";

interface Props {
  /** Names what is done, and to what. */
  title: string;
  /** What the buttons say. */
  yes: string;
  no: string;
  children: ComponentChildren;
  /** Does it. What it throws is said, and nothing is closed. */
  onYes: () => Promise<void>;
  /** It is done. */
  onDone: () => void;
  onClose: () => void;
  /** What was asked about goes, and with it what had the focus: who goes by the keyboard goes on at the page's title. */
  goes?: boolean;
}

/** A question that is answered before anything else. It begins at the answer that changes nothing; when it goes, the focus is where it was. */
export function Confirm({ title, yes, no, children, onYes, onDone, onClose, goes = false }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const safe = useRef<HTMLButtonElement>(null);
  const done = useRef(false);
  const attempt = useAttempt();
  const leave = (): void => {
    if (!attempt.busy) onClose();
  };
  const act = async (): Promise<void> => {
    await onYes();
    done.current = true;
    onDone();
  };
  useLayoutEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    safe.current?.focus();
    return () => {
      shown?.close();
      if (done.current && goes) document.querySelector<HTMLElement>("main h1")?.focus();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      role="alertdialog"
      aria-labelledby="confirm-title"
      class="confirm"
      onCancel={(e) => {
        e.preventDefault();
        leave();
      }}
    >
      <h2 id="confirm-title">{title}</h2>
      {children}
      {attempt.error && <Wrong error={attempt.error} />}
      <div class="row">
        <button ref={safe} type="button" aria-disabled={attempt.busy} onClick={leave}>
          {no}
        </button>
        <button type="button" class="danger" aria-disabled={attempt.busy} onClick={() => void attempt.run(act)}>
          {attempt.busy ? "…" : yes}
        </button>
      </div>
    </dialog>
  );
}
