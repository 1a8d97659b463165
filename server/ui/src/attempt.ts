// Runs an action that may fail, one at a time.

import { useRef, useState } from "preact/hooks";

export interface Attempt {
  /** The action is running. Buttons use aria-disabled, because disabled ones would lose the focus. */
  busy: boolean;
  error: Error | undefined;
  /** Runs an action unless one is running, and reports whether it succeeded. */
  run: (what: () => Promise<void>) => Promise<boolean>;
  /** Removes the error. */
  clear: () => void;
}

export function useAttempt(): Attempt {
  const [busy, setBusy] = useState(false);
  const running = useRef(false);
  const [error, setError] = useState<Error | undefined>();
  const run = async (what: () => Promise<void>): Promise<boolean> => {
    if (running.current) return false;
    running.current = true;
    setBusy(true);
    setError(undefined);
    try {
      await what();
      return true;
    } catch (err) {
      setError(err as Error);
      return false;
    } finally {
      running.current = false;
      setBusy(false);
    }
  };
  return { busy, error, run, clear: () => setError(undefined) };
}
