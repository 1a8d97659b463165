// Asks for confirmation.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

import { useAttempt } from "../attempt.ts";
import { ErrorNotice } from "./notices.tsx";

interface Props {
  /** The question. */
  title: string;
  /** The labels of the buttons. */
  yes: string;
  no: string;
  children: ComponentChildren;
  /** Acts. An error is shown and keeps the dialog open. */
  onYes: () => Promise<void>;
  /** Called after onYes has succeeded. */
  onDone: () => void;
  onClose: () => void;
  /** The focused element disappears with the object: the focus moves to the title of the page. */
  goes?: boolean;
}

/** A modal dialog. The button that changes nothing has the focus first; after closing, the focus returns. */
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
      {attempt.error && <ErrorNotice error={attempt.error} />}
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
