// Doing something that may fail, one at a time.

import { useRef, useState } from "preact/hooks";

export interface Attempt {
  /** It is being done. Buttons say so by aria-disabled: those that are disabled would lose the focus. */
  busy: boolean;
  error: Error | undefined;
  /** Does it, unless something is being done, and reports whether it was done. */
  run: (what: () => Promise<void>) => Promise<boolean>;
  /** Takes an error for said. */
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
